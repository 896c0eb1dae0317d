package envoyrls

import (
	"context"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// health answers grpc.health.v1.Health. Like /readyz it needs no password.
type health struct {
	healthpb.UnimplementedHealthServer
	ready func() error
	stop  <-chan struct{}
}

// watchEvery is how often the health is looked at for those who watch it.
const watchEvery = time.Second

// of returns the health of a service, "" for that of the server.
func (h *health) of(service string) healthpb.HealthCheckResponse_ServingStatus {
	switch {
	case service != "" && service != pb.RateLimitService_ServiceDesc.ServiceName:
		return healthpb.HealthCheckResponse_SERVICE_UNKNOWN
	case h.ready() != nil:
		return healthpb.HealthCheckResponse_NOT_SERVING
	}
	return healthpb.HealthCheckResponse_SERVING
}

// Check implements healthpb.HealthServer.
func (h *health) Check(_ context.Context, in *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	is := h.of(in.GetService())
	if is == healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Error(codes.NotFound, "there is no such service")
	}
	return &healthpb.HealthCheckResponse{Status: is}, nil
}

// Watch implements healthpb.HealthServer.
func (h *health) Watch(in *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for last := healthpb.HealthCheckResponse_UNKNOWN; ; {
		if is := h.of(in.GetService()); is != last {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: is}); err != nil {
				return err
			}
			last = is
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-h.stop:
			return status.Error(codes.Unavailable, "the server is stopping")
		}
	}
}
