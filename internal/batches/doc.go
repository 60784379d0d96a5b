// Package batches keeps what becomes of the requests of a batch file in MongoDB: a record of the batch, and one
// document for each request, with its failed attempts and, once it has ended, its result.
//
// # Written once
//
// A result is written by one atomic update that only matches while there is none. A task that is delivered twice, on
// one worker or on two, changes nothing that is there: [Store.Finish] says whether it was the first. A process may be
// killed at any point: a document has its whole result or none of it. Writes are acknowledged by a majority. Every
// write may be repeated after an error, where it is not known whether it was applied.
//
// # Order and memory
//
// The documents of a batch are named by their line, so the order of the file is that of the index on _id.
// [Store.Results] reads them page by page and holds a page at most, however long the batch is and however slowly it is
// read.
//
// # Size
//
// Bodies above 1 kB are compressed. A request has one document, and MongoDB's documents end at 16 MB: an answer that
// does not fit is replaced by a [Failure] with the code [CodeTooLarge]. It is never cut, and never left out silently.
//
// # Retention
//
// A result is deleted by a TTL index when the retention of its batch has passed since it was written, and the record
// of the batch a day or more after the last of its results.
//
// # Servers
//
// MongoDB 4.4 and later (standalone, replica set, sharded by _id), and FerretDB 2.
package batches
