// Package batches stores batches and the results of their requests in MongoDB. A batch has a record. Each request has
// one document, with its failed attempts and, after its end, its result.
//
// # Written once
//
// One atomic update writes a result, and it only matches a document without a result. A task that is delivered twice,
// on one worker or on two, changes no stored result. A process may be killed at any point: a document has its whole
// result or none of it. A majority of servers acknowledges each write. After an error a write may have been applied or
// not; it is safe to repeat it.
//
// # Order and memory
//
// The line is part of a document's _id, so the index on _id has the order of the file. [Store.All] reads page by
// page and holds one page, however long the batch and however slow the reader.
//
// # Size
//
// Bodies above 1 kB are compressed. A request has one document, and a document of MongoDB has at most 16 MB. A
// [Failure] with the code [CodeTooLarge] replaces an answer that does not fit. An answer is never cut.
//
// # Retention
//
// A TTL index deletes a result after 30 days. It deletes the record of the batch a day or more
// after its last result.
//
// # Servers
//
// MongoDB 4.4 and later (standalone, replica set, sharded by _id), and FerretDB 2.
package batches
