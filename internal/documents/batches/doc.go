// Package batches stores batches and the results of their requests, in a store of documents. A batch has a record. Each
// request has one document, with its failed attempts and, after its end, its result.
//
// # Written once
//
// One atomic swap writes a result, into a document without one. A task that is delivered twice, on one worker or on
// two, changes no stored result. A process may be killed at any point: a document has its whole result or none of it.
// After an error a write may have been applied or not; it is safe to repeat it.
//
// # Order and memory
//
// The line is part of the key of a document, so keys have the order of the file. [Store.All] reads page by page and
// holds one page of heads and 8 MB of bodies, however long the batch and however slow the reader. Counts read heads
// only, and no server has to compute them.
//
// # Size
//
// Bodies above 1 kB are compressed. A request has one document of at most [documents.Largest] bytes. A [Failure] with
// the code [CodeTooLarge] replaces an answer that does not fit. An answer is never cut.
//
// # Retention
//
// The store deletes a result after 30 days. It deletes the record of the batch a day or more after its last result.
package batches
