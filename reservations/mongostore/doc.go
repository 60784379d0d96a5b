// Package mongostore keeps buckets in MongoDB, for fleets of any size. It implements [reservations.Store].
//
// # Consistency
//
// Each bucket is one document. A call reads the document and the server's clock, folds its requests by
// [bucket.Fold] and writes the result. It writes only if no other process wrote meanwhile (a swap); else it
// repeats this. A process that wrote last swaps without reading, in one round trip. There is no lock and no
// transaction. A majority acknowledges each write, so a failover takes nothing back.
//
// # Clock
//
// The server's $$NOW is the only clock that decides; the clocks of the callers do not matter. A swap without a read
// decides at a moment that the server's clock has reached: its last reading, at most a second old, and the time since
// that reading arrived.
//
// # Storage
//
// Documents are in the collection [DefaultCollection], named by their bucket. A missing document means a full bucket,
// so a document may be deleted a minute after its bucket is full: [Store.EnsureIndexes] creates a TTL index for that.
//
// # Servers
//
// MongoDB 4.4 and later (standalone, replica set, sharded by _id), and FerretDB 2.
//
// # Failures
//
// The store repeats only what certainly changed nothing; the driver's own retryable writes repeat exactly once, where
// the server supports them. Every error is a *[bucket.UnavailableError] that says what is known. It matches
// [bucket.ErrBucket] where the fault is one of the bucket's document. A client of [Connect] lets the store
// distinguish calls that were never sent from calls whose answer was lost; with another client it says
// [bucket.AppliedMaybe] more often than it has to.
package mongostore
