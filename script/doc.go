// Package script runs the Lua 5.1 scripts of EVAL, as Redis runs them, on gopher-lua. It knows nothing of keys: a [Host]
// runs the commands that a script calls.
//
// A script can do no harm:
//
//   - It has no files, no clock, no global variables, and no way to change what the next script sees. The tables that scripts
//     share are in [VM], and every store looks at the table in which it ends.
//   - Its steps are counted, one for each instruction of the virtual machine and one for some bytes that a library
//     function works on.
//   - Its memory is counted. The library has no bound for it, so [Compile] rewrites the syntax tree: what concatenates,
//     makes a table or a closure, or stores in a table calls a function of this package, which counts the bytes. Bytes
//     are never given back. The count is an estimate, so the server watches the heap as well.
//   - It can be stopped, or held, from another goroutine.
//
// A script that passes a bound ends with an error that it cannot catch.
package script
