//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// duel has one place for a pause: after bob's read and before his write cat's bid is written.
const duel = `{"auction":"7","bidder":"ann","amount":100}
{"auction":"7","bidder":"bob","amount":110}
{"auction":"7","bidder":"cat","amount":120}
{"auction":"7","bidder":"dan","amount":115}
{"auction":"8","bidder":"eve","amount":30}
`

func TestShippedBids_LateWritesAreRefused(t *testing.T) {
	t.Parallel()
	p := runProgram(t, allRight, "")
	out := p.out.String()
	assert.Empty(t, p.errOut.String())
	assert.GreaterOrEqual(t, strings.Count(out, "REFUSED"), 2, out)
	assert.NotContains(t, out, "DAMAGE")
	assert.Regexp(t, `RIGHT: .* Late writes refused: [2-9]`, out)
	for auction, best := range highest(t, shipped(500)) {
		assert.Regexp(t, fmt.Sprintf(`(?m)^  %s +%s +%d `, auction, best.Bidder, best.Amount), out)
	}
	for line := range strings.Lines(out) {
		assert.LessOrEqual(t, len(line), 101, line)
	}
}

// The story of a pause, in its order: who, which token, which mark, how late.
func TestPause_IsTold(t *testing.T) {
	t.Parallel()
	out := runProgram(t, allRight, duel, "-bids=-", "-pauses=1", "-ttl=300ms").out.String()
	story := regexp.MustCompile(`(?s)pause 1 of 1, on auction 7
.*s  (P\d)   holds     token (\d+); has read (?:ann's 100|no bid) and is about to write bob's 110
.*s  (P\d)   SIGSTOP   process \d+ stands still, and so renews no lease
.*s  (P\d)   holds     token (\d+); the lease of (P\d) has run out
.*s  (P\d)   writes    cat's 120 under token (\d+)
.*s  (P\d)   SIGCONT   goes on; its write of bob's 110 leaves under token (\d+)
.*s  (P\d)   REFUSED   token (\d+) < mark (\d+); its lease ran out (\d+) ms ago
.*s  (P\d)   retries   under a fresh lease: outbid by cat's 120
`).FindStringSubmatch(out)
	require.NotNil(t, story, out)
	victim, token := story[1], story[2]
	for _, i := range []int{3, 6, 9, 11, 15} {
		assert.Equal(t, victim, story[i])
	}
	for _, i := range []int{10, 12} {
		assert.Equal(t, token, story[i])
	}
	assert.NotEqual(t, victim, story[4])
	assert.NotEqual(t, victim, story[7])
	assert.Regexp(t, `  7 +cat +120 +\d+ +4 +\d +\d +1`+"\n", out)
}

func TestGuardOff_TheHigherBidIsLost(t *testing.T) {
	t.Parallel()
	for _, seed := range []string{"1", "2"} {
		t.Run(seed, func(t *testing.T) {
			t.Parallel()
			out := runProgram(t, bidLost, shipped(200), "-bids=-", "-guard=off", "-ttl=300ms", "-pauses=1", "-processors=3", "-seed", seed).out.String()
			damage := regexp.MustCompile(`(?s)pause 1 of 1, on auction (\w+)\n.* DAMAGE +(\w+)'s (\d+), token (\d+), has overwritten (\w+'s \d+)\n`).FindStringSubmatch(out)
			require.NotNil(t, damage, out)
			lost := highest(t, shipped(200))[damage[1]]
			assert.Equal(t, lost.String(), damage[5], "what was overwritten is the auction's highest bid")
			assert.Contains(t, out, fmt.Sprintf("auction %s has lost the bid of line %d, %v; its row says ", damage[1], lost.Line, lost))
			assert.Contains(t, out, "WRONG: 1 of 5 auctions")
			assert.NotContains(t, out, "REFUSED")
		})
	}
}

// An equal bid that comes later doesn't mend the damage.
func TestGuardOff_AnEqualBidMendsNothing(t *testing.T) {
	t.Parallel()
	out := runProgram(t, bidLost, duel+`{"auction":"7","bidder":"fay","amount":120}`, "-bids=-", "-guard=off", "-processors=2", "-ttl=300ms").out.String()
	assert.Contains(t, out, "WRONG: 1 of 2 auctions")
	assert.Regexp(t, `auction 7 has lost the bid of line (3, cat's|6, fay's) 120; its row says`, out)
}

func TestPauses_ManyAndFewProcessors(t *testing.T) {
	t.Parallel()
	out := runProgram(t, allRight, shipped(200), "-bids=-", "-pauses=8", "-processors=2", "-ttl=250ms", "-seed=5").out.String()
	assert.Contains(t, out, "pause 8 of 8")
	assert.GreaterOrEqual(t, strings.Count(out, "REFUSED"), 8, out)
}

func TestPauses_NoneWanted(t *testing.T) {
	t.Parallel()
	out := runProgram(t, allRight, duel, "-bids=-", "-pauses=0", "-processors=1").out.String()
	assert.Regexp(t, `RIGHT: .*refused: 0`, out)
	assert.NotContains(t, out, "pause")

	out = runProgram(t, allRight, duel, "-bids=-", "-pauses=0", "-guard=off", "-processors=1").out.String()
	assert.Contains(t, out, "RIGHT, by luck")
}

func TestPauses_NoRoom(t *testing.T) {
	t.Parallel()
	out := runProgram(t, allRight, `{"auction":"7","bidder":"ann","amount":100}`, "-bids=-", "-processors=2").out.String()
	assert.Contains(t, out, "0 of 2 can be staged")
	assert.Regexp(t, `  7 +ann +100 +1 +1 +1 +0 +0`+"\n", out)
}

func TestNoSIGSTOP_ThePauseIsSimulated(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		status      int
		guard, want string
	}{{allRight, "on", "REFUSED"}, {bidLost, "off", "DAMAGE"}} {
		t.Run("guard "+row.guard, func(t *testing.T) {
			t.Parallel()
			p := prepare(t, strings.NewReader(duel), "-bids=-", "-processors=2", "-ttl=300ms", "-guard", row.guard)
			p.cmd.Env = append(p.cmd.Env, asProgram+"=program without SIGSTOP")
			p.start().end(row.status)
			assert.Contains(t, p.out.String(), "simulated, for want of SIGSTOP")
			assert.Contains(t, p.out.String(), row.want)
			assert.NotContains(t, p.out.String(), "stands still")
		})
	}
}

func TestMalformedLines_AreToldAndSkipped(t *testing.T) {
	t.Parallel()
	p := runProgram(t, someSkipped, "nope\n"+duel+`{"auction":"7","bidder":"fay","amount":-1}`+"\n", "-bids=-", "-processors=2", "-ttl=300ms")
	assert.Regexp(t, `^line 1 skipped: it is not JSON: .*\nline 7 skipped: amount is -1, want 1 or more\n$`, p.errOut.String())
	assert.Contains(t, p.out.String(), "5 bids on 2 auctions from standard input")
	assert.Contains(t, p.out.String(), "RIGHT")

	p = runProgram(t, bidLost, "nope\n"+duel, "-bids=-", "-processors=2", "-ttl=300ms", "-guard=off")
	assert.Contains(t, p.errOut.String(), "line 1 skipped", "a lost bid is told by the status all the same")

	p = runProgram(t, someSkipped, strings.Repeat("nope\n", 30), "-bids=-")
	assert.Contains(t, p.errOut.String(), "line 20 skipped")
	assert.Contains(t, p.errOut.String(), "and 10 more")
	assert.Contains(t, p.out.String(), "no bids")
}

func TestBids_FromAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.ndjson")
	require.NoError(t, os.WriteFile(file, []byte(duel), 0o600))
	out := runProgram(t, allRight, "", "-bids", file, "-processors=2", "-ttl=300ms").out.String()
	assert.Contains(t, out, "5 bids on 2 auctions from "+file)

	p := runProgram(t, notRun, "", "-bids", file+"x")
	assert.Contains(t, p.errOut.String(), "mine.ndjsonx: no such file")
	p = runProgram(t, notRun, "", "-bids", filepath.Dir(file))
	assert.Contains(t, p.errOut.String(), "is a directory")
	p = runProgram(t, allRight, "", "-bids=-")
	assert.Contains(t, p.out.String(), "standard input has no bids: nothing to do")
}

func TestFlags(t *testing.T) {
	t.Parallel()
	p := runProgram(t, wrongFlags, "", "-guard=perhaps")
	assert.Equal(t, "auction: -guard=perhaps: want on or off\nauction -h shows all flags\n", p.errOut.String())
	p = runProgram(t, allRight, "", "-h")
	assert.Contains(t, p.out.String(), "Usage: auction")
	assert.Empty(t, p.errOut.String())
}

func TestInterrupt_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p := begin(t, duel, "-bids=-", "-ttl=30s")
			p.out.await(t, "SIGSTOP")
			pids := p.processors()
			assert.Len(t, pids, 4)
			p.signal(signal)
			p.end(interrupted)
			p.leavesNothing()
			assert.Equal(t, "auction: interrupted\n", p.errOut.String())
			for _, pid := range pids {
				assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
			}
		})
	}
}

func TestInterrupt_WhileNobodyTypes(t *testing.T) {
	t.Parallel()
	silent, hold, err := os.Pipe()
	require.NoError(t, err)
	defer hold.Close()
	p := prepare(t, silent, "-bids=-").start()
	require.NoError(t, silent.Close())
	p.out.await(t, "reading bids from standard input")
	p.signal(syscall.SIGINT)
	p.end(interrupted)
	p.leavesNothing()
}

func TestParentKilled_ItsProcessorsEndToo(t *testing.T) {
	t.Parallel()
	p := begin(t, duel, "-bids=-", "-ttl=30s")
	p.out.await(t, "SIGSTOP")
	p.signal(syscall.SIGKILL)
	p.end(-1) // waits for the processors
}

func TestProcessorKilled_IsTold(t *testing.T) {
	t.Parallel()
	p := begin(t, duel, "-bids=-", "-ttl=30s")
	p.out.await(t, "SIGSTOP")
	victim := p.processors()[2]
	require.NoError(t, syscall.Kill(victim, syscall.SIGKILL))
	p.end(notRun)
	p.leavesNothing()
	assert.Regexp(t, `^auction: P3 \(process \d+\) has ended, signal: killed, at the bid of line \d+\n$|^auction: P3 \(process \d+\) has ended: signal: killed\n$`, p.errOut.String())
}

// Somebody else stops a processor, and lets it go on later.
func TestProcessorStoppedByHand(t *testing.T) {
	t.Parallel()
	p := begin(t, shipped(200), "-bids=-", "-pauses=0", "-processors=2", "-ttl=200ms")
	victim := p.processors()[0]
	p.out.await(t, "40 of 200")
	require.NoError(t, syscall.Kill(victim, syscall.SIGSTOP))
	p.out.await(t, "P1   stopped ")
	require.NoError(t, syscall.Kill(victim, syscall.SIGCONT))
	p.end(allRight)
	p.leavesNothing()
}

func TestOutputClosed_EndsTheRun(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	p := prepare(t, nil, "-processors=2")
	p.cmd.Stdout = write
	p.start()
	require.NoError(t, write.Close())
	require.NoError(t, read.Close())
	p.end(notRun)
	p.leavesNothing()
	assert.Contains(t, p.errOut.String(), "write the output: ")
}

// shipped is the first n lines of the shipped file.
func shipped(n int) string {
	return strings.Join(strings.SplitAfterN(string(shippedBids), "\n", n+1)[:n], "")
}

func highest(t *testing.T, text string) map[string]bid {
	t.Helper()
	bids, _, err := readBids(strings.NewReader(text), prefix)
	require.NoError(t, err)
	all := map[string]bid{}
	for auction, best := range highestBids(bids) {
		all[auction] = best[0]
	}
	return all
}
