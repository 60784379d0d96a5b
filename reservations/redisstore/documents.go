package redisstore

import (
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/redisdocs"
)

// Documents returns the documents of a Redis, for deadtasks.New. They take its memory, and are as durable as the Redis
// is. It sends nothing. The caller closes the client.
func Documents(client redis.UniversalClient) documents.Store { return redisdocs.New(client) }
