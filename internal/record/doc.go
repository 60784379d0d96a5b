// Package record stands between the handlers of a worker and the place where the results of batches are kept: a request that belongs to a
// batch has its result written before asynq hears that its task has ended.
//
// A worker may die at any point. Where it dies before the result is written, the task is delivered again and the call is made again; where it
// dies afterwards, the task is delivered again, the result is found, and no call is made.
package record
