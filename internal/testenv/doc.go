// Package testenv gives tests real servers - Redis, alone or as Sentinel and Cluster, and PostgreSQL, started
// on free ports of 127.0.0.1 - and a TCP proxy that misbehaves on command. It returns URLs and imports
// no database client.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	func TestLateWriterIsRefused(t *testing.T) {
//		url, _ := testenv.Postgres(t).Schema(t)
//		redis := testenv.NewRedis(t)
//		proxy := testenv.NewProxy(t, redis.Addr())
//		client := connect(proxy.URL(redis.URL()))
//		...
//		lost := proxy.LoseReply("evalsha") // the next one is carried out, and its caller cannot know
//		redis.Pause()                      // SIGSTOP
//
// # Shared and private servers
//
// [Redis] and [Postgres] return the server that all tests of a test binary share. It starts when a test
// first asks for it and ends in [Main]. Tests keep apart by [RedisServer.Prefix] and
// [PostgresServer.Schema], so they may run in parallel; so may the binaries of several packages, each
// of which has servers of its own. RINGFENCE_TEST_REDIS and RINGFENCE_TEST_POSTGRES, URLs of servers
// that run already, take their place; keys are left in such a Redis, schemas are dropped.
//
// [NewRedis] and [NewPostgres] start a server for one test (about 50 ms and 500 ms), which may then
// pause, kill, stop and restart it: see [Server]. Such a test needs the programs on this machine
// whatever the variables say.
//
// # Sentinel and Cluster
//
// [NewSentinel] and [NewCluster] start several Redis servers that work together, private to one test
// (about 1 s and 2 s), each of which the test may pause, kill and restart:
//
//	s := testenv.NewSentinel(t)       // a primary, a replica, three sentinels
//	s.KillPrimary()
//	s.AwaitFailover()                 // returns the new primary, after about 2.5 s
//	s.Primary().Restart()             // the old one
//	s.AwaitSync()                     // is a replica now, after about 5 s
//
//	c := testenv.NewCluster(t)        // three primaries; NewReplicatedCluster: and three replicas
//	slot := c.SlotOf("lock:seat/A12")
//	move := c.BeginMove(slot, 0)      // on its way: both nodes serve, with ASK and TRYAGAIN
//	move.Finish()                     // or both in one: c.MoveSlot(slot, 0)
//	c.Node(1).Kill()
//	c.AwaitState("fail")              // after 2 to 4 s
//
// What they do by themselves is waited for up to a minute; then the test fails with the last answer and
// all logs. A machine so busy that a server gets no processor for a second can see a failover that the
// test did not ask for. Tests that could run on [Redis] belong there.
//
// Under -short every function that needs a server skips its test, and that is the only skip. A
// program that is not installed fails the test with the command that installs it. A start takes at most
// 30 seconds; one that fails shows the end of the server's log. When root runs the tests, PostgreSQL
// runs as the user postgres.
//
// # What is left afterwards
//
// Nothing: no process and no folder outlives the test binary by more than a moment, also when it
// panics, calls os.Exit, is killed, or has paused a server. Ended in order, it leaves no goroutine
// either. While a server runs it has one goroutine here: a test that looks for leaks by itself, as with
// goleak.VerifyNone, asks for its servers first and passes goleak.IgnoreCurrent.
//
// The package works on Linux and macOS. On Windows it is empty.
package testenv
