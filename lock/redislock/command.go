package redislock

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// command is a call of a script. Its arguments are pointers into itself, which go-redis takes as it takes what they
// point to: each that it gets by value costs an allocation. (And what traces commands shows no holder.)
type command struct {
	script  *script
	texts   [8]string
	numbers [4]int64
	args    [16]any
	nText   int
	nNumber int
	nArg    int
}

// call begins a command. The first key goes by value: by it a Cluster client finds the node.
func (s *script) call(keys int, first string) *command {
	c := &command{script: s, nArg: 4}
	c.args[0], c.args[1], c.args[2], c.args[3] = "evalsha", s.digest, keys, first
	return c
}

func (c *command) text(s string) *command {
	c.texts[c.nText] = s
	c.args[c.nArg] = &c.texts[c.nText]
	c.nText, c.nArg = c.nText+1, c.nArg+1
	return c
}

func (c *command) number(n int64) *command {
	c.numbers[c.nNumber] = n
	c.args[c.nArg] = &c.numbers[c.nNumber]
	c.nNumber, c.nArg = c.nNumber+1, c.nArg+1
	return c
}

// cmd is the command as go-redis sends it; by its source, the script is loaded, too.
func (c *command) cmd(ctx context.Context, bySource bool) *redis.Cmd {
	if bySource {
		c.args[0], c.args[1] = "eval", c.script.source
	}
	return redis.NewCmd(ctx, c.args[:c.nArg]...)
}

// send sends the command, once more if the server does not know the script. It sends nothing if ctx has ended.
func (c *command) send(ctx context.Context, rdb redis.UniversalClient) *redis.Cmd {
	cmd := c.cmd(ctx, false)
	if err := ctx.Err(); err != nil {
		cmd.SetErr(err)
		return cmd
	}
	_ = rdb.Process(ctx, cmd) // cmd has its error
	if isUnknown(cmd.Err()) {
		cmd = c.cmd(ctx, true)
		_ = rdb.Process(ctx, cmd)
	}
	return cmd
}

func isUnknown(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }
