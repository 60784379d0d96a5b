package headway_test

import (
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/products/embedded"
)

// newRedis returns a client of a Redis in this process, and what ends both. Programs use their own.
func newRedis() (client *redis.Client, end func()) {
	server, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	client = server.Connect()
	return client, func() {
		_ = client.Close()
		server.Close()
	}
}
