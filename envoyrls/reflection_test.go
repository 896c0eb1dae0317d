package envoyrls

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"os"
	"slices"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	alphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

var update = flag.Bool("update", false, "write descriptors.binpb.gz")

// services returns the descriptions of the services and of all that they import, each after what it imports.
func services() *descriptorpb.FileDescriptorSet {
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	for _, f := range []protoreflect.FileDescriptor{
		rls.File_envoy_service_ratelimit_v3_rls_proto, healthpb.File_grpc_health_v1_health_proto,
		reflectionpb.File_grpc_reflection_v1_reflection_proto, alphapb.File_grpc_reflection_v1alpha_reflection_proto,
	} {
		add(f)
	}
	return set
}

// TestGeneratedDescriptions compares what is told of the services with what their packages say. With -update it writes the file.
func TestGeneratedDescriptions(t *testing.T) {
	want := services()
	if *update {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(b) // a buffer takes everything
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("descriptors.binpb.gz", packed.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	all, err := described()
	if err != nil || len(all) != len(want.File) {
		t.Fatalf("%d files and %v, want %d: run scripts/docs", len(all), err, len(want.File))
	}
	for i, f := range all {
		got := new(descriptorpb.FileDescriptorProto)
		if err := proto.Unmarshal(f.bytes, got); err != nil || !proto.Equal(got, want.File[i]) {
			t.Errorf("%s is not what its package says (%v): run scripts/docs", f.name, err)
		}
	}
	find := func(symbol string) bool {
		return slices.ContainsFunc(all, func(f file) bool { return slices.Contains(f.symbols, symbol) })
	}
	for symbol, want := range map[string]bool{
		"envoy.service.ratelimit.v3.RateLimitService":                           true,
		"envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit":           true,
		"envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus":         true,
		"envoy.service.ratelimit.v3.RateLimitResponse.statuses":                 true,
		"envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus.code":    true,
		"envoy.config.core.v3.RequestMethod":                                    true,
		"validate.rules":                                                        true,
		"envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus.code.OK": false,
		"envoy.service.ratelimit.v3":                                            false,
	} {
		if find(symbol) != want {
			t.Errorf("%s: found %v", symbol, !want)
		}
	}
}

func TestReflection(t *testing.T) {
	for _, on := range []bool{false, true} {
		p := open(t, func(o *Options) { o.Reflection = on })
		stream, err := reflectionpb.NewServerReflectionClient(p.dial(insecure.NewCredentials())).ServerReflectionInfo(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		err = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "envoy.service.ratelimit.v3.RateLimitService",
		}})
		if err == nil || errors.Is(err, io.EOF) { // the call may be over already
			_, err = stream.Recv()
		}
		if on != (err == nil) || !on && status.Code(err) != codes.Unimplemented {
			t.Errorf("%v: %v", on, err)
		}
		_ = stream.CloseSend()
	}
}
