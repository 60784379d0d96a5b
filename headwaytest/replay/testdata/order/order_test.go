// Package order has a test whose every order is random.
package order

import (
	"context"
	crypto "crypto/rand"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOrder writes what it saw to the trace.
func TestOrder(t *testing.T) {
	var mu sync.Mutex
	var saw []string
	see := func(format string, values ...any) {
		mu.Lock()
		defer mu.Unlock()
		saw = append(saw, fmt.Sprintf(format, values...))
	}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		secret := make([]byte, 8)
		numbers := make(chan int)
		words := make(chan int)
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				see("goroutine %d", n)
				time.Sleep(time.Duration(n%3) * time.Second)
				see("timer of %d after %v", n, time.Since(begin))
				select {
				case numbers <- n:
				case words <- n:
				}
			})
		}
		for range 20 {
			select {
			case n := <-numbers:
				see("number %d", n)
			case n := <-words:
				see("word %d", n)
			}
		}
		all.Wait()
		var pool sync.Pool
		for range 10 {
			pool.Put(&secret)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for n := range 20 {
			context.AfterFunc(ctx, func() { see("child %d", n) })
		}
		cancel()
		synctest.Wait()
		letters := map[string]int{}
		for n := range 100 {
			letters[fmt.Sprint(n)] = n
		}
		see("map %v", slices.Collect(maps.Keys(letters)))
		_, _ = crypto.Read(secret)
		see("random %d, secret %x", rand.Uint64(), secret)
	})
	if name := os.Getenv("HEADWAY_TRACE"); name != "" {
		if err := os.WriteFile(name, []byte(strings.Join(saw, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv("HEADWAY_SEED") == "13" {
		t.Error("the seed is 13")
	}
}
