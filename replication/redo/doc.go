// Package redo makes the writes of many files durable with few syncs.
//
// The replicas of a node have a log each, and a sync of each log for each of its writes would be most of what a decision costs. With a redo log, the
// node's replicas write their logs without a sync, and what they write goes into the redo log as well: physically, as bytes at an offset of a file. One
// sync of the redo log serves all that have written meanwhile. After a crash, the redo log is read and its writes are done again, in their order, before
// anybody opens the files. When a file of the redo log is full, another one begins, and the full one is removed once the files that it is about are
// synced.
//
// A file is known by the directory in which it is and by the bytes with which it begins, and not by its name, which may change. So these bytes must
// be durable and never change, and no other file of the directory may ever begin with them. What is about a file that is gone is left out.
package redo
