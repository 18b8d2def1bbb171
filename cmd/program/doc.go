// Package program is what main is in every program of this module: it runs the command line until a signal comes, says
// what went wrong, and ends the process with an exit code that scripts may rely on.
//
// In: a root command; out: the process's end. Each program has types of its own for the errors that mean something else
// than failure; they say so by a method. The package imports nothing of this project.
package program
