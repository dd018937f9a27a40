// Package middleware carries fencing tokens over HTTP: [Require] refuses requests whose token is no
// longer the newest, [NewTransport] sends the token of a lease with a client's requests, and
// [WriteProblem] answers with what went wrong.
//
// # Trust: mount it behind authentication
//
// The token and the holder are plain request headers. Whoever can reach a handler behind Require can
// send any number, and one request with token 9223372036854775807 shuts every honest writer out of
// that resource for good. Fencing protects honest writers from each other's pauses; it is not access
// control. So: authenticate and authorise first, outside Require, and keep the holder out of logs and
// off unencrypted networks - it is the key to a live lease.
//
// A missing header fails closed. Proxies that strip Fencing-Token, or a client that names it in its
// Connection header, cause a 428, never an unfenced write. Fencing_Token is another header and is not
// looked at.
//
// # Require is a filter
//
// Require admits the claim, puts it into the request's context and runs the handler. While the
// handler runs, a newer holder may be admitted and may write: the check and the handler's write are
// not one step. The filter keeps late *requests* out. To keep late *writes* out, write through the
// guard at the handler's commit point, where the same claim is checked again, atomically with the
// write:
//
//	func placeBid(w http.ResponseWriter, r *http.Request) {
//		bid, err := readBid(r) // slow, or a large upload: outside
//		...
//		claim, _ := fence.FromContext(r.Context())
//		err = g.Do(r.Context(), claim, func(ctx context.Context) error {
//			return store(ctx, bid) // commit: inside
//		})
//		if err != nil {
//			middleware.WriteProblem(w, r, err) // 412 if a newer holder overtook
//			return
//		}
//		...
//	}
//
// This needs a claim with a holder. A claim without one may write once, and Require's own admission
// is that once: such a request reaches the handler, a repetition is answered 409, and so is g.Do in
// the handler. With a holder a handler that fails does not use the token up: the same holder may try
// again under the same token, and so may whoever repeats its request - pair Require with an
// idempotency key where that matters.
//
// # Where to mount it
//
// The resource comes from the route, so Require wraps the handler of a route, not the router:
//
//	fenced := middleware.Require(g, middleware.Prefix("auction/", middleware.PathValue("id")))
//	mux.Handle("POST /auctions/{id}/bids", fenced(http.HandlerFunc(placeBid)))
//
// Mounted around the mux, the path value is not known yet: every request is answered 500, and the log
// says how to mount it.
//
// GET, HEAD and OPTIONS pass unchecked and never move a mark; every other method needs a claim, also
// TRACE and made-up ones. Require judges the method it sees: mount it inside anything that overrides
// methods (X-HTTP-Method-Override). A WebSocket starts as a GET and passes; fence what it writes with
// the guard.
//
// # The wire contract
//
//	Fencing-Token: 34                 decimal, no sign, no leading zero, 1 to 9223372036854775807
//	Fencing-Holder: <uuid>            36 characters, lower case, not all zero; absent: no holder
//	Fencing-Resource: auction%2F7     optional, percent-encoded; must equal the route's resource
//
// Each at most once, no lists. The refusals are application/problem+json (RFC 9457) with Cache-Control:
// no-store; "type" is the bare string below. Where they are known, "resource", "token" and "mark" are
// members, the latter two JSON strings. A holder never is.
//
//	case                                              status            type
//	no token                                          428               fencing-token-required
//	malformed, duplicated, out of range, or for
//	another resource; a path that names none          400               fencing-token-invalid
//	bad, missing or expired signature                 403               fencing-token-forged
//	the row that the claim protects does not exist    404               fence-not-found
//	stale, duplicate                                  412               fencing-token-stale, fencing-token-duplicate
//	replayed                                          409               fencing-token-replayed
//	the guard could not decide                        503, Retry-After  fence-unavailable
//	the commit's answer was lost                      500               fence-outcome-unknown
//	mounted where there is no resource                500, log line     fence-misconfigured
//	an error that is not about fencing                500, log line     about:blank
//
// 412 and 409 are final: the same claim can never succeed, a retry is pointless. Only 503 asks for
// one. Signatures are not part of this version: Require itself never answers 403, and does not look
// into Fencing-Signature.
package middleware
