// Package redislock keeps leases in Redis or Valkey: standalone, Sentinel or Cluster.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	locker, err := lock.New(redislock.New(rdb))
//
// # Keys
//
// The lease of the resource ticket-123 is the plain string lock:ticket-123, "<holder> <token>
// <label>", with an expiry. A program in another language that uses the plain recipe on the same key
// - SET NX PX to acquire, compare-and-delete to release - excludes Ringfence's holders and is excluded
// by them; it gets no token. GET lock:ticket-123 shows who holds.
//
// Beside it stand {lock:ticket-123}:fence, the counter that tokens come from, and for a minute
// {lock:ticket-123}:gone:<holder>, the tombstone of an acquire whose caller went away. The hash tag is
// the whole lease key, so all of them share a cluster slot. The characters { } and % of a name are
// percent-escaped.
//
// # Tokens
//
// A token is the counter, raised by one, and further to the server's clock in microseconds if that is
// more. So tokens rise as long as the counter lives; and when it is lost, evicted, rolled back or
// expired they still rise if the granting server's clock then shows more than every token given. The
// counter expires 24 hours after the resource was last used, and never before the time that its value
// stands for: memory is bounded by what is in use. [PlainCounter] counts 1, 2, 3 ... instead.
//
// # What Redis can't promise
//
// Redis replicates asynchronously: a failover can lose a lease, and its counter's last steps. Two
// holders can then believe in the same resource, even with the same token. A guard with the full rule
// admits one of them only; see package guard.
package redislock
