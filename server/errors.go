package server

import (
	"runtime"
	"strings"

	"limitdb/server/clients"
)

// The error texts for clients. A text without a prefix is sent with "ERR ".
const (
	errUnauthenticated = "NOAUTH Authentication required."
	errWrongPass       = "WRONGPASS invalid username-password pair or user is disabled."
	errNoPassword      = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	errHelloNoAuth     = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	errTooManyAuth     = "ERR too many failed AUTH attempts from your address: the connection is closed"
	errNoProto         = "NOPROTO unsupported protocol version"
	errProtoNotInt     = "ERR Protocol version is not an integer or out of range"
	errKeyOfRule       = "ERR the key belongs to a rule: use RL.CHECK, RL.RULES RESET or RL.RULES INFO"
	errTimeoutNegative = "ERR timeout is negative"
	errTimeoutNotInt   = "ERR timeout is not an integer or out of range"
	errKeyTooLong      = "ERR key is longer than max-key-len allows"
	errMaxClients      = "ERR max number of clients reached"
	errUnknownOutcome  = "UNKNOWNOUTCOME the node stopped leading before this was on a majority of the nodes: it may have been counted"
	errForwardSize     = "ERR the command is longer than 16 MB: send it to the node that leads"
	errCrossSlot       = "CROSSSLOT Keys in request don't hash to the same slot"
	errAllGroups       = "ERR the keys are divided among several groups, so no transaction and no script has all of them"
	errStrangeKey      = "ERR Script attempted to access a non local key in a cluster node"
	errLoading         = "LOADING limitdb is loading the dataset in memory"
	errSubscribed      = "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
	errNoSuchClient    = "ERR No such client"
	errUnblocked       = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
	errUnblockReason   = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"
	errNoSuchUser      = "ERR No such user '%s'"
	errReplyMode       = "ERR syntax error"
	errClientName      = "ERR Client names cannot contain spaces, newlines or special characters."
	errLibName         = "ERR lib-name cannot contain spaces, newlines or special characters."
	errLibVer          = "ERR lib-ver cannot contain spaces, newlines or special characters."
	errInternal        = "ERR internal error: the connection is closed"
	errInternalHTTP    = "ERR internal error"
	errPaused          = "PAUSED clients are paused (CLIENT PAUSE): ask again"
	errShuttingDown    = "ERR the server is shutting down"
	errProtectedMode   = "DENIED limitdb is running in protected mode because no password is set. In this mode connections are only accepted from the loopback interface and from unix sockets. To connect from elsewhere, set a password (directive requirepass or requirepass-file), or turn protected mode off with 'protected-mode no' if the network is trusted."
	errNoSuchModule    = "ERR limitdb loads no modules"
	errDebugRefused    = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server."
	errSleepRange      = "ERR DEBUG SLEEP takes seconds from 0 to 3600"
	errFunctionFlush   = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option"
	errWaitAOF         = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."
	errWaitAOFRange    = "ERR value is out of range, value must between 0 and 1"
	errTrackingNever   = "ERR limitdb does not invalidate keys that change, so a client must not cache; only CLIENT TRACKING ON OPTIN is accepted, and keys announced by CLIENT CACHING YES are invalidated at once"

	errCachingOff = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
	errCachingNo  = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."

	errNumReplicas = "ERR value is out of range, must be positive"
)

// maxLogged is how many bytes from a client a log line repeats.
const maxLogged = 128

// logged returns bytes from a client in a form fit for a log line: cut. The log's handler
// escapes them.
func logged(b []byte) string {
	if len(b) > maxLogged {
		return string(b[:maxLogged]) + "..."
	}
	return string(b)
}

// panickedInEngine reports whether the panicking stack has a frame of the engine.
func panickedInEngine() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "limitdb/engine.") {
			return true
		}
		if !more {
			return false
		}
	}
}

// LevelVerbose is the log level, between debug and info, of events that a single client causes.
const LevelVerbose = clients.LevelVerbose
