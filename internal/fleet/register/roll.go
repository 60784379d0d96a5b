package register

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// roll is a list of what lives: a sorted set of IDs, each with the score 0, and a string with an expiry for each ID.
type roll string

const (
	members roll = "member"
	readers roll = "reader"
)

func (l roll) set() string            { return root + string(l) + "s" }
func (l roll) entry(id string) string { return root + string(l) + ":" + id }

// enter adds an ID, or renews its entry.
func (l roll) enter(ctx context.Context, p redis.Pipeliner, id string, text any) {
	p.Set(ctx, l.entry(id), text, lives)
	p.ZAdd(ctx, l.set(), redis.Z{Member: id})
}

// leave removes an ID.
func (l roll) leave(ctx context.Context, client redis.UniversalClient, id string) error {
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, l.entry(id))
		p.ZRem(ctx, l.set(), id)
		return nil
	})
	return err
}

// living returns the texts of all entries by ID, and removes the IDs whose entry has expired.
func (l roll) living(ctx context.Context, client redis.UniversalClient) (map[string]string, error) {
	ids, err := client.ZRange(ctx, l.set(), 0, -1).Result()
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = l.entry(id)
	}
	found, err := client.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	var gone []any
	for i, entry := range found {
		if text, ok := entry.(string); ok {
			texts[ids[i]] = text
		} else {
			gone = append(gone, ids[i])
		}
	}
	if len(gone) > 0 {
		err = client.ZRem(ctx, l.set(), gone...).Err()
	}
	return texts, err
}
