//go:build unix

package testenv

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRespAnswers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"+OK\r\n":                              "OK",
		":-42\r\n":                             int64(-42),
		"$4\r\na\r\nb\r\n":                     "a\r\nb",
		"$0\r\n\r\n":                           "",
		"$-1\r\n":                              nil,
		"*-1\r\n":                              nil,
		"*0\r\n":                               []any{},
		"*3\r\n$1\r\na\r\n*1\r\n:1\r\n$-1\r\n": []any{"a", []any{int64(1)}, nil},
	} {
		answer, err := readAnswer(bufio.NewReader(strings.NewReader(text)))
		require.NoError(t, err, "%q", text)
		assert.Equal(t, want, answer, "%q", text)
	}
	_, err := readAnswer(bufio.NewReader(strings.NewReader("-MOVED 1 127.0.0.1:1\r\n")))
	assert.Equal(t, respError("MOVED 1 127.0.0.1:1"), err)
	for _, bad := range []string{
		"", "+OK", "\r\n", "%1\r\n", "$x\r\n", "$9223372036854775807\r\n", "$3\r\nab", "*2\r\n:1\r\n", "*1\r\n-ERR\r\n",
	} {
		_, err := readAnswer(bufio.NewReader(strings.NewReader(bad)))
		assert.Error(t, err, "%q", bad)
	}
}

func TestRespInfo(t *testing.T) {
	t.Parallel()
	info := "# Server\r\nrole:master\r\nrole_more:x\r\nempty:\r\n"
	assert.Equal(t, "master", infoField(info, "role"))
	assert.Empty(t, infoField(info, "empty"))
	assert.Empty(t, infoField(info, "more"))
	assert.Equal(t, map[string]string{"ip": "127.0.0.1", "n": ""}, pairs([]any{"ip", "127.0.0.1", "n", int64(1)}))
}
