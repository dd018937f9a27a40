package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/middleware"
)

// discard is a ResponseWriter that costs nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkRequire compares a fenced handler with the bare one: the difference is what Require costs.
func BenchmarkRequire(b *testing.B) {
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	fenced := middleware.Require(memguard.New(), middleware.Prefix("auction/", middleware.PathValue("id")))(bare)
	w := discard{http.Header{}}
	r := httptest.NewRequest("POST", "/auctions/7/bids", nil)
	r.SetPathValue("id", "7")
	r.Header = claimHeaders("34", holderA)

	named := r.Clone(b.Context())
	named.Header.Set("Fencing-Resource", "auction%2F7")
	stale := r.Clone(b.Context())
	stale.Header.Set("Fencing-Token", "33")

	for _, row := range []struct {
		name    string
		handler http.Handler
		r       *http.Request
	}{{"bare", bare, r}, {"fenced", fenced, r}, {"fenced with resource", fenced, named}, {"refused", fenced, stale}} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				row.handler.ServeHTTP(w, row.r)
			}
		})
	}
}
