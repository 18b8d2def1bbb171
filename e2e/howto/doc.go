// Package howto runs the commands that README and the how-tos show, as they are written, where a reader would run them.
//
// In: Markdown. Out: its blocks of shell, console sessions, YAML and tables of calls (Read), and a Reader that follows
// them in a folder of his own. A comment before a block says what a reader knows without being told:
//
//	<!-- run: file mesh/gateway.yaml -->      the block is a file of that name
//	<!-- run: stays until COMMAND -->         its last command runs on; it is up when COMMAND succeeds
//	<!-- run: exits 0 or 1 -->                its commands may end with either
//	<!-- run: fails 2 -->                     of a console session, the second command fails
//	<!-- run: prints TEXT -->                 its output has TEXT, sooner or later
//	<!-- run: on gateway as 1337 -->          on that host, as that user
//	<!-- run: in cluster -->                  in that scene; the document's own otherwise
//	<!-- run: table -->                       of the table that follows, each first cell is a command
//	<!-- run: not here: REASON -->            it cannot be tried; tests list these
//
// Several are separated by semicolons. It imports nothing of this module, and knows nothing of Sallyport.
package howto
