package embedded_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A client that does not read its answer stops neither the others nor the time of the bubble.
func TestAnswersWithoutTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, client := inMemory(t)
		if err := client.Set(t.Context(), "large", strings.Repeat("x", 1<<20), 0).Err(); err != nil {
			t.Fatal(err)
		}
		slow, there := net.Pipe()
		defer func() { _ = slow.Close() }()
		server.Serve(there)
		if _, err := io.WriteString(slow, "*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
		sleep(t, time.Hour)
	})
}
