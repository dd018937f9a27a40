// Package redislock keeps leases in Redis 6.2 or later, or Valkey: standalone, Sentinel or Cluster.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	locker, err := lock.New(redislock.New(rdb))
//
// # Keys
//
// The lease of the resource ticket-123 is the plain string lock:ticket-123, "<holder> <token>
// <label>", with an expiry: GET lock:ticket-123 shows who holds. Beside it stand
//
//	{lock:ticket-123}:fence           the counter that tokens come from
//	{lock:ticket-123}:queue           who waits, in order
//	{lock:ticket-123}:seen            when each of them last asked
//	{lock:ticket-123}:gone:<holder>   for a minute: an acquire whose caller went away
//
// The hash tag is the whole lease key, so all of them share a cluster slot. The characters { } and % of a
// name are percent-escaped. All of them expire by themselves, but for the counter of [PlainCounter].
//
// # Other programs
//
// A program in any language that uses the plain recipe on the lease key excludes Ringfence's holders and
// is excluded by them; it gets no token:
//
//	SET lock:ticket-123 <random> NX PX 30000
//	EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock:ticket-123 <random>
//
// It doesn't stand in line, and its DEL wakes nobody: waiters see it within a second. Besides a lease
// the key may hold "turn <holder>", for 250 ms, when the resource is free but for the first in line, and
// "released <token> <label>", for what is left of a minimum hold.
//
// # Tokens
//
// A token is the counter, raised by one, and further to the server's clock in microseconds if that is
// more. So tokens rise as long as the counter lives; and when it is lost, evicted, rolled back or
// expired they still rise if the granting server's clock then shows more than every token given. The
// counter expires 24 hours ([IdleTime]) after the resource was last used, and never before the time that
// its value stands for: memory is bounded by what is in use. [PlainCounter] counts 1, 2, 3 ... instead.
//
// # Waiting
//
// Who frees a resource gives the turn to the first in line and publishes that to the channel
// ringfence:<listener> of its Locker, which has one subscription, on a connection of its own; two more
// are told to stand by. In Cluster any node passes that on. Beyond that each waiter asks once a second:
// so the store knows that it lives, and no message is needed for good. Where PUBLISH or SUBSCRIBE is not
// permitted, or the subscription is down, waiters get in by asking alone, the first in line several times
// a second if it knows. A subscription that is silent is asked after 2 s, and given up after 4 s.
//
// # Permissions
//
// A user of Redis's ACL needs, besides what its client does by itself (such as HELLO, or CLUSTER SLOTS):
//
//	~lock:* ~{lock:* &ringfence:*
//	+eval +evalsha +get +mget +set +del +exists +incr +expire +pexpire +pexpireat +persist +pttl +time
//	+zadd +zcard +zmscore +zrange +zrank +zrem +zremrangebyrank +zremrangebyscore +zscore
//	+publish +subscribe +unsubscribe +ping
//
// # What Redis can't promise
//
// Redis replicates asynchronously: a failover can lose a lease, and its counter's last steps. Two
// holders can then believe in the same resource, even with the same token. A guard with the full rule
// admits one of them only; see package guard. A lease that was lost is told as lost at its next renewal,
// or when its time is up. A place in line that was lost is taken again within a second, by its ticket.
//
// The keys must not be evicted: an evicted lease is a lost one. Under noeviction a server that is full
// refuses to grant, and still renews and releases.
//
// In Cluster, each node's renewals are a pipeline of their own, and a node that is silent or down costs
// only what is on it: see [Driver.Renew]. While a slot is on its way to another node, Redis refuses most
// commands that have several keys: leases of that slot are renewed, but for the moment in which their keys
// are moved; acquiring and releasing are tried again, and may end as unavailable.
//
// A client whose ContextTimeoutEnabled is off, as it is by default, may go on after its caller's context
// has ended, until its own timeouts: package lock doesn't wait for it.
package redislock
