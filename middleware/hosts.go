package middleware

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// host is one entry of WithHosts, and the form in which a request's URL is compared with it.
type host struct{ name, port string } // port "": any

// parseHost reads "name" or "name:port"; an IPv6 address may stand in brackets.
func parseHost(entry string) (host, error) {
	name, port, err := net.SplitHostPort(entry)
	if err != nil {
		name, port = entry, ""
	} else if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return host{}, fmt.Errorf("host %q: port %q: want 1 to 65535", entry, port)
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		name = strings.TrimSuffix(inner, "]")
	}
	if name == "" || strings.ContainsAny(name, "/@?#*[] \t\r\n") || (strings.Contains(name, ":") && net.ParseIP(name) == nil) {
		return host{}, fmt.Errorf(`host %q: want the host of a URL, "api.example.com" or "api.example.com:8443"`, entry)
	}
	return host{strings.ToLower(name), port}, nil
}

// hostOf is where a request to u goes.
func hostOf(u *url.URL) host {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	case u.Scheme == "http":
		port = "80"
	}
	return host{strings.ToLower(u.Hostname()), port}
}

// among reports whether one of the entries covers h.
func (h host) among(entries []host) bool {
	return slices.ContainsFunc(entries, func(e host) bool {
		return e.name == h.name && (e.port == "" || e.port == h.port)
	})
}
