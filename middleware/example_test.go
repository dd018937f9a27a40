package middleware_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/middleware"
)

// A server fences a route, and writes through the guard at its commit point. Two clients hold leases
// on the same auction, one after the other; the first was paused, and its late request is refused.
func Example() {
	g := memguard.New()
	highest := ""
	placeBid := func(w http.ResponseWriter, r *http.Request) {
		bid, err := io.ReadAll(r.Body) // slow work first, outside the guard
		if err != nil {
			http.Error(w, "unreadable bid", http.StatusBadRequest)
			return
		}
		claim, _ := fence.FromContext(r.Context())
		err = g.Do(r.Context(), claim, func(context.Context) error {
			highest = string(bid)
			return nil
		})
		if err != nil {
			middleware.WriteProblem(w, r, err)
			return
		}
		_, _ = fmt.Fprintf(w, "the highest bid is %s", highest)
	}
	fenced := middleware.Require(g, middleware.Prefix("auction/", middleware.PathValue("id")))
	mux := http.NewServeMux()
	mux.Handle("POST /auctions/{id}/bids", fenced(http.HandlerFunc(placeBid)))
	server := httptest.NewServer(mux) // in earnest: behind authentication
	defer server.Close()

	at, _ := url.Parse(server.URL)
	client := &http.Client{Transport: middleware.NewTransport(server.Client().Transport, middleware.WithHosts(at.Host))}
	bid := func(lease context.Context, amount string) {
		req, _ := http.NewRequestWithContext(lease, http.MethodPost, server.URL+"/auctions/7/bids", strings.NewReader(amount))
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		fmt.Println(resp.StatusCode, string(text))
	}

	// In earnest these are the contexts of leases: lease.Context().
	paused := fence.NewContext(context.Background(), fence.Claim{Resource: "auction/7", Token: 33, Holder: uuid.New()})
	newer := fence.NewContext(context.Background(), fence.Claim{Resource: "auction/7", Token: 34, Holder: uuid.New()})
	bid(newer, "120")
	bid(paused, "110")
	bid(context.Background(), "130") // without a lease

	// Output:
	// 200 the highest bid is 120
	// 412 {"type":"fencing-token-stale","title":"Stale fencing token","status":412,"detail":"A newer token has been admitted for this resource. This one can never succeed again.","resource":"auction/7","token":"33","mark":"34"}
	// 428 {"type":"fencing-token-required","title":"Fencing token required","status":428,"detail":"This needs the fencing token of a lease on the resource, in the header Fencing-Token."}
}
