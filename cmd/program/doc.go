// Package program is what main is in every program of this module: it runs the command line until a signal comes, says
// what went wrong, and ends the process with an exit code that scripts may rely on.
//
// In: a root command; out: the process's end. Errors that mean something else than failure say so by a method: Misuse, AnswerNo, and what
// programs have of their own. The package imports nothing of this project.
package program
