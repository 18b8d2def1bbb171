package envoylog

import "github.com/sallyport/sallyport/egress/audit/protobuf"

// The tags of the fields that are read, by message: of envoy.service.accesslog.v3, envoy.data.accesslog.v3, envoy.config.core.v3 and
// google.protobuf. TestReadsWhatGeneratedCodeReads holds them to Envoy's own.
const (
	messageIdentifier = 1<<3 | protobuf.Bytes
	messageHTTPLogs   = 2<<3 | protobuf.Bytes
	messageTCPLogs    = 3<<3 | protobuf.Bytes
	identifierLogName = 2<<3 | protobuf.Bytes
	entriesLogEntry   = 1<<3 | protobuf.Bytes

	entryCommon   = 1<<3 | protobuf.Bytes
	tcpConnection = 2<<3 | protobuf.Bytes
	httpVersion   = 2<<3 | protobuf.Varint
	httpRequest   = 3<<3 | protobuf.Bytes
	httpResponse  = 4<<3 | protobuf.Bytes

	commonRemote       = 2<<3 | protobuf.Bytes
	commonLocal        = 3<<3 | protobuf.Bytes
	commonTLS          = 4<<3 | protobuf.Bytes
	commonStart        = 5<<3 | protobuf.Bytes
	commonFirstSent    = 7<<3 | protobuf.Bytes
	commonUpstream     = 13<<3 | protobuf.Bytes
	commonOutward      = 14<<3 | protobuf.Bytes
	commonCluster      = 15<<3 | protobuf.Bytes
	commonFlags        = 16<<3 | protobuf.Bytes
	commonMetadata     = 17<<3 | protobuf.Bytes
	commonRoute        = 19<<3 | protobuf.Bytes
	commonDirect       = 20<<3 | protobuf.Bytes
	commonTags         = 22<<3 | protobuf.Bytes
	commonDuration     = 23<<3 | protobuf.Bytes
	commonEnded        = 25<<3 | protobuf.Bytes
	commonIntermediate = 27<<3 | protobuf.Varint
	commonType         = 33<<3 | protobuf.Varint

	connectionReceived = 1<<3 | protobuf.Varint
	connectionSent     = 2<<3 | protobuf.Varint

	requestMethod    = 1<<3 | protobuf.Varint
	requestAuthority = 3<<3 | protobuf.Bytes
	requestPath      = 5<<3 | protobuf.Bytes
	requestBodyBytes = 12<<3 | protobuf.Varint

	responseCode      = 1<<3 | protobuf.Bytes
	responseBodyBytes = 3<<3 | protobuf.Varint
	responseDetails   = 6<<3 | protobuf.Bytes

	tlsSNI          = 3<<3 | protobuf.Bytes
	tlsPeer         = 5<<3 | protobuf.Bytes
	certificateName = 1<<3 | protobuf.Bytes
	nameURI         = 1<<3 | protobuf.Bytes

	addressSocket = 1<<3 | protobuf.Bytes
	socketAddress = 2<<3 | protobuf.Bytes
	socketPort    = 3<<3 | protobuf.Varint

	answerMetadata = 6<<3 | protobuf.Bytes // RateLimitResponse.dynamic_metadata

	metadataFilter = 1<<3 | protobuf.Bytes
	structField    = 1<<3 | protobuf.Bytes
	valueString    = 3<<3 | protobuf.Bytes

	mapKey       = 1<<3 | protobuf.Bytes
	mapValue     = 2<<3 | protobuf.Bytes
	timeSeconds  = 1<<3 | protobuf.Varint
	timeNanos    = 2<<3 | protobuf.Varint
	wrappedValue = 1<<3 | protobuf.Varint
)
