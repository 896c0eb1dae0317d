package server

import (
	"net"
	"net/netip"
)

// addrText returns the peer's address as Redis shows it: for a unix socket, its path.
func addrText(remote, local net.Addr) string { return string(appendAddr(nil, remote, local)) }

func appendAddr(b []byte, remote, local net.Addr) []byte {
	if isUnix(local) {
		return append(append(b, local.String()...), ":0"...)
	}
	if tcp, ok := remote.(*net.TCPAddr); ok && tcp.Zone == "" {
		if ip, ok := netip.AddrFromSlice(tcp.IP); ok {
			return netip.AddrPortFrom(ip.Unmap(), uint16(tcp.Port)).AppendTo(b)
		}
	}
	if remote == nil {
		return append(b, "?:0"...)
	}
	return append(b, remote.String()...)
}

func isUnix(a net.Addr) bool {
	_, ok := a.(*net.UnixAddr)
	return ok
}

// isLocal reports whether the peer is on this machine.
func isLocal(remote net.Addr) bool {
	switch a := remote.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	}
	return false
}
