package reservations

// Remaining is what a new ordinary task could take from each meter at the moment of the answer, in tokens: what is
// neither taken nor promised nor headroom. It is never negative, and zero during a block. A web handler shows it as
// X-RateLimit-Remaining, Wait as Retry-After, and Bucket.FullAt as the reset. Where the limit has Shards, it is that of
// the shard. A meter that the limit lost may be named until it is full.
func (o Outcome) Remaining() Tokens {
	left := Tokens{}
	for _, m := range o.Bucket.Meters {
		left[m.Name] = 0
		if !o.Bucket.Blocked.After(o.At) {
			left[m.Name] = max(0, m.Reserved-m.Filling.Headroom)
		}
	}
	return left
}
