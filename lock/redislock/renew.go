package redislock

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/lock/driver"
)

// Renew implements [driver.Driver]. It sends one pipeline; in Cluster, one to each node concerned.
func (d *Driver) Renew(ctx context.Context, rs []driver.Renewal) []error {
	errs := make([]error, len(rs))
	if err := ctx.Err(); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	all := make([]int, len(rs))
	for i := range all {
		all[i] = i
	}
	unloaded := d.renew(ctx, rs, errs, all, renewScript.EvalSha)
	if len(unloaded) > 0 {
		d.renew(ctx, rs, errs, unloaded, renewScript.Eval)
	}
	return errs
}

type eval func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

// renew sends the renewals named by which, and sets their errors. It returns those whose server did not
// know the script.
func (d *Driver) renew(ctx context.Context, rs []driver.Renewal, errs []error, which []int, eval eval) (unloaded []int) {
	pipe := d.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(which))
	for n, i := range which {
		r := rs[i]
		k := keysOf(r.Claim.Resource)
		shorten := 0
		if r.Shorten {
			shorten = 1
		}
		cmds[n] = eval(ctx, pipe, []string{k.lease, k.fence}, r.Claim.Holder.String(), ms(r.TTL), shorten, ms(d.idle))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for n, i := range which {
		done, err := cmds[n].Int()
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			errs[i] = err
			unloaded = append(unloaded, i)
		case err != nil:
			errs[i] = err
		case done == 0:
			errs[i] = driver.ErrLost
		default:
			errs[i] = nil
		}
	}
	return unloaded
}
