package envoyrls

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// What grpc.reflection.v1 tells. The answers are made from a FileDescriptorSet of the services and of all that they import, which a test compares
// with the packages that have them.

//go:embed descriptors.binpb.gz
var descriptions embed.FS

// file is a FileDescriptorProto.
type file struct {
	name    string
	bytes   []byte
	imports []string
	symbols []string // full names of what it defines
}

// The numbers of fields in FileDescriptorProto, DescriptorProto and their parts.
const (
	fileName, filePackage, fileImport, fileMessage, fileEnum, fileService, fileExtension = 1, 2, 3, 4, 5, 6, 7

	messageField, messageNested, messageEnum, messageOneof = 2, 3, 4, 8

	methodOf, valueOf = 2, 2 // of a service, of an enum
)

// described returns the files, those that they import included.
func described() (all []file, err error) {
	b, err := descriptions.ReadFile("descriptors.binpb.gz")
	if err != nil {
		return nil, err
	}
	packed, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	set, err := io.ReadAll(packed)
	if err != nil {
		return nil, err
	}
	err = fields(set, func(num protowire.Number, _ uint64, b []byte) error {
		if num != 1 {
			return nil
		}
		f, err := fileOf(b)
		all = append(all, f)
		return err
	})
	return all, err
}

// fileOf reads a FileDescriptorProto.
func fileOf(b []byte) (f file, err error) {
	f.bytes = b
	scope := ""
	err = fields(b, func(num protowire.Number, _ uint64, b []byte) error {
		switch num {
		case fileName:
			f.name = string(b)
		case filePackage:
			scope = string(b) + "."
		case fileImport:
			f.imports = append(f.imports, string(b))
		}
		return nil
	})
	if err == nil {
		err = fields(b, func(num protowire.Number, _ uint64, b []byte) error {
			switch num {
			case fileMessage:
				return f.define(b, scope, map[protowire.Number]bool{messageField: false, messageNested: true, messageEnum: false, messageOneof: false})
			case fileEnum:
				return f.define(b, scope, map[protowire.Number]bool{valueOf: false})
			case fileService:
				return f.define(b, scope, map[protowire.Number]bool{methodOf: false})
			case fileExtension:
				return f.define(b, scope, nil)
			}
			return nil
		})
	}
	return f, err
}

// define adds the name of what b describes and the names of its parts, which are in fields of these numbers; deep ones have parts as well.
func (f *file) define(b []byte, scope string, parts map[protowire.Number]bool) error {
	name := ""
	err := fields(b, func(num protowire.Number, _ uint64, b []byte) error {
		if num == 1 {
			name = scope + string(b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.symbols = append(f.symbols, name)
	return fields(b, func(num protowire.Number, _ uint64, b []byte) error {
		deep, ok := parts[num]
		switch {
		case !ok || b == nil:
			return nil
		case deep:
			return f.define(b, name+".", parts)
		}
		return f.define(b, name+".", nil)
	})
}

// with returns the descriptions of a file and of all that it imports.
func with(all []file, f *file) [][]byte {
	out, names := [][]byte{f.bytes}, []string{f.name}
	more := slices.Clone(f.imports)
	for len(more) > 0 {
		name := more[0]
		more = more[1:]
		if slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		if i := slices.IndexFunc(all, func(f file) bool { return f.name == name }); i >= 0 {
			out = append(out, all[i].bytes)
			more = append(more, all[i].imports...)
		}
	}
	return out
}

// The numbers of fields in ServerReflectionRequest and in ServerReflectionResponse.
const (
	askFile, askSymbol, askExtension, askNumbers, askList = 3, 4, 5, 6, 7

	tellHost, tellRequest, tellFiles, tellList, tellError = 1, 2, 4, 6, 7
)

// reflect answers a message of a reflection call.
func (c *call) reflect(message []byte) {
	out, err := c.x.s.reflection(message)
	if err != nil {
		c.fail(failed(codeArgument, err.Error()))
		return
	}
	c.say(framed(append(make([]byte, 5, 5+len(out)), out...)))
	c.send()
}

// reflection returns the answer to a ServerReflectionRequest.
func (s *Server) reflection(message []byte) (out []byte, err error) {
	host, asked, text := "", protowire.Number(0), ""
	err = fields(message, func(num protowire.Number, _ uint64, b []byte) error {
		switch {
		case num == 1 && b != nil:
			host = string(b)
		case num >= askFile && num <= askList && b != nil:
			asked, text = num, string(b)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all, err := s.files()
	if err != nil {
		return nil, err
	}
	out = appendString(out, tellHost, host)
	out = protowire.AppendBytes(protowire.AppendTag(out, tellRequest, protowire.BytesType), message)
	is := func(f file) bool {
		return asked == askFile && f.name == text || asked == askSymbol && slices.Contains(f.symbols, strings.TrimPrefix(text, "."))
	}
	var inner []byte
	switch at := slices.IndexFunc(all, is); {
	case asked == askList:
		for _, name := range []string{serviceName, healthName, "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"} {
			inner = protowire.AppendBytes(protowire.AppendTag(inner, 1, protowire.BytesType), appendString(nil, 1, name))
		}
		return protowire.AppendBytes(protowire.AppendTag(out, tellList, protowire.BytesType), inner), nil
	case at >= 0:
		for _, b := range with(all, &all[at]) {
			inner = protowire.AppendBytes(protowire.AppendTag(inner, 1, protowire.BytesType), b)
		}
		return protowire.AppendBytes(protowire.AppendTag(out, tellFiles, protowire.BytesType), inner), nil
	}
	inner = appendString(appendVarint(nil, 1, uint64(codeNotFound)), 2, "not found: "+text)
	return protowire.AppendBytes(protowire.AppendTag(out, tellError, protowire.BytesType), inner), nil
}
