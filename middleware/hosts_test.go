package middleware

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHosts(t *testing.T) {
	for _, row := range []struct {
		entry, url string
		want       bool
	}{
		{"api.example.com", "https://api.example.com/x", true},
		{"api.example.com", "http://api.example.com:8080/x", true},
		{"API.example.com", "https://api.EXAMPLE.com", true},
		{"api.example.com:8443", "https://api.example.com:8443", true},
		{"api.example.com:443", "https://api.example.com", true},
		{"api.example.com:80", "http://api.example.com", true},
		{"api.example.com:80", "http://api.example.com:", true},
		{"[::1]:8080", "http://[::1]:8080", true},
		{"[::1]", "http://[::1]:8080", true},
		{"::1", "http://[::1]", true},

		{"api.example.com:8443", "https://api.example.com", false},
		{"api.example.com:80", "https://api.example.com", false},
		{"api.example.com", "https://example.com", false},
		{"example.com", "https://api.example.com", false},
		{"example.com", "https://example.com.evil.org", false},
		{"example.com", "https://example.com@evil.org", false},
		{"example.com", "https://example.com.", false},
		{"example.com", "/relative", false},
		{"[::1]", "http://[::2]", false},
	} {
		entry, err := parseHost(row.entry)
		require.NoError(t, err, row.entry)
		u, err := url.Parse(row.url)
		require.NoError(t, err)
		assert.Equal(t, row.want, hostOf(u).among([]host{{"other.example.com", ""}, entry}), "%+v", row)
	}

	for _, entry := range []string{
		"", ":80", "*", "*.example.com", "https://example.com", "example.com/", "example.com/v1", "a@example.com",
		"example.com:", "example.com:http", "example.com:0", "example.com:65536", "example.com, example.org", "a:b:c", "[]",
	} {
		_, err := parseHost(entry)
		require.Error(t, err, entry)
		assert.Panics(t, func() { WithHosts("example.com", entry) }, entry)
	}
}
