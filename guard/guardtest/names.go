package guardtest

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
)

// oddNames are names that stores have been seen to mistake for one another, or to choke on: other
// case, trailing space, composed and decomposed letters, numbers by value, quotes, patterns, escapes.
var oddNames = []string{
	"a", "A", "a ", " a", "a  ", "a\u00a0", "a\u200b", "ａ", "\u00e1", "a\u0301", "\u00e4", "\u00c4",
	"ss", "ß", "ẞ", "i", "ı", "İ", "I", "k", "\u212a", "σ", "ς", "ﬁ", "fi",
	"7", "07", "7.0", "+7", "7e0", " 7", "0x7", "-7", "９", "1", "true", "null", "NULL", "NaN",
	"'", "''", `"`, `""`, "`", `\`, `\\`, `\'`, "a'b", `a"b`, "a;--", "'; DROP TABLE fence_marks; --",
	"%", "%%", "%41", "%61", "%2F", "/", "//", "a/", "_", "a_", "a%", "*", "?", "[a]", "$1", ":a", "@a", "?1", "{a}", "}a{", "a:b", "a,b",
	"日本語", "🔒", "🔓", "e\u0301\u0323", "e\u0323\u0301", "\ufeffa", "a\ufffd",
	".", "..", "../a", "~",
}

func testOddNames(t *testing.T, s subject) {
	base := newName("")
	names := make([]string, 0, len(oddNames)+4)
	for _, n := range oddNames {
		names = append(names, base+n)
	}
	// The longest names: they differ in the last byte only, and one is another's beginning.
	long := base + strings.Repeat("x", fence.MaxResource-len(base)-1)
	wide := base + strings.Repeat("日", (fence.MaxResource-len(base))/len("日"))
	names = append(names, long, long+"a", long+"b", wide)

	holders := make([]uuid.UUID, len(names))
	token := func(i int) fence.Token { return fence.Token(1000 - i) } // falling: a name that shares a mark is stale
	for i, n := range names {
		holders[i] = uuid.New()
		s.ready(t, n)
		c := fence.Claim{Resource: n, Token: token(i), Holder: holders[i]}
		require.NoError(t, s.admit(t, c), "%q has no mark of its own", n)
	}
	for i, n := range names {
		c := fence.Claim{Resource: n, Token: token(i), Holder: uuid.New()}
		requireRejected(t, s.admit(t, c), c, fence.ErrDuplicate, token(i))
		c.Holder = holders[i]
		require.NoError(t, s.admit(t, c), "%q has lost its mark", n)
	}
}
