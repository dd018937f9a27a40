package redislock

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/lock/driver"
)

// Renew implements [driver.Driver]. It sends one pipeline; in Cluster, one to each node concerned, see
// renewByNode.
func (d *Driver) Renew(ctx context.Context, rs []driver.Renewal) []error {
	if err := ctx.Err(); err != nil {
		errs := make([]error, len(rs))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if cluster, ok := d.rdb.(*redis.ClusterClient); ok {
		return d.renewByNode(ctx, cluster, rs)
	}
	return d.renew(ctx, rs)
}

// share is what one node is asked.
type share struct {
	node *redis.Client
	rs   []driver.Renewal
	at   []int   // where they came from
	errs []error // the node's answers
}

// renewByNode returns when all nodes have answered, or when ctx ends: a node that is silent, or gone, does
// not keep the answers of the others. What waits for it then ends by the client's own timeouts.
func (d *Driver) renewByNode(ctx context.Context, cluster *redis.ClusterClient, rs []driver.Renewal) []error {
	errs := make([]error, len(rs))
	shares := make(map[*redis.Client]*share)
	for i, r := range rs {
		node, err := cluster.MasterForKey(ctx, keysOf(r.Claim.Resource, r.Claim.Holder).lease)
		if err != nil {
			errs[i] = err
			continue
		}
		s, ok := shares[node]
		if !ok {
			s = &share{node: node, rs: make([]driver.Renewal, 0, len(rs)-i), at: make([]int, 0, len(rs)-i)}
			shares[node] = s
		}
		s.rs, s.at = append(s.rs, r), append(s.at, i)
	}
	answers := make(chan *share, len(shares))
	for _, s := range shares {
		go func() {
			s.errs = d.renew(ctx, s.rs) // by the cluster's client: it follows a slot that has moved
			answers <- s
		}()
	}
	for len(shares) > 0 {
		select {
		case s := <-answers:
			for n, i := range s.at {
				errs[i] = s.errs[n]
			}
			delete(shares, s.node)
		case <-ctx.Done():
			for _, s := range shares {
				for _, i := range s.at {
					errs[i] = fmt.Errorf("redislock: no answer from the node: %w", ctx.Err())
				}
			}
			return errs
		}
	}
	return errs
}

// renew sends one pipeline, and a second one for what the server did not know the script of.
func (d *Driver) renew(ctx context.Context, rs []driver.Renewal) []error {
	errs := make([]error, len(rs))
	all := make([]int, len(rs))
	for i := range all {
		all[i] = i
	}
	unknown := d.send(ctx, false, rs, all, errs)
	if len(unknown) > 0 && ctx.Err() == nil {
		d.send(ctx, true, rs, unknown, errs)
	}
	return errs
}

// send sends the renewals named by which, and sets their errors. It returns those whose server did not
// know the script.
func (d *Driver) send(ctx context.Context, bySource bool, rs []driver.Renewal, which []int, errs []error) (unknown []int) {
	pipe := d.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(which))
	for n, i := range which {
		cmds[n] = d.renewal(rs[i]).cmd(ctx, bySource)
		_ = pipe.Process(ctx, cmds[n]) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for n, i := range which {
		errs[i] = onlyHolder(cmds[n].Int())
		if isUnknown(errs[i]) {
			unknown = append(unknown, i)
		}
	}
	return unknown
}

func (d *Driver) renewal(r driver.Renewal) *command {
	k := keysOf(r.Claim.Resource, r.Claim.Holder)
	shorten := int64(0)
	if r.Shorten {
		shorten = 1
	}
	return renewScript.call(3, k.lease).text(k.fence).text(k.queue).text(k.holder).number(ms(r.TTL)).number(shorten).number(d.idle)
}
