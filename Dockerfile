# The image of limitdb: one static binary, nothing else, and nobody's rights.
#
#     docker build -t limitdb --build-arg VERSION=0.1.0 .
#     docker run -p 6379:6379 -e LIMITDB_REQUIREPASS=secret limitdb
#
# It listens on all addresses of the container, since nobody could reach it on
# its loopback. Protected mode stays on: without a password, clients from outside
# the container get an error that says what to do. Where the network is private,
# -e LIMITDB_PROTECTED_MODE=no serves them without one.
#
# State is kept in the volume /data; -e LIMITDB_APPENDONLY=no keeps none.
#
# Arguments are limitdb's own: docker run limitdb --maxclients 500. Directives
# can also be given as LIMITDB_<DIRECTIVE>; the two set below are stronger than
# a configuration file.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
        -ldflags "-s -w -X main.version=${VERSION}" \
        -o /out/limitdb ./cmd/limitdb \
    && mkdir /out/data

FROM scratch
COPY --from=build /out/limitdb /limitdb
COPY --from=build --chown=65532:65532 /out/data /data
ENV LIMITDB_BIND=* \
    LIMITDB_DIR=/data
USER 65532:65532
WORKDIR /data
VOLUME /data
# Clients; metrics and health.
EXPOSE 6379 6380
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/limitdb", "ping"]
ENTRYPOINT ["/limitdb"]
