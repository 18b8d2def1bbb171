package protobuf

// BatchRecord is the tag of Batch.records, and every byte string that begins with it and is no Batch is no record of ours either.
const BatchRecord = 1<<3 | Bytes

// The tags of Record.
const (
	proxy                     = 1<<3 | Bytes
	epoch                     = 2<<3 | Varint
	seq                       = 3<<3 | Varint
	seconds                   = 4<<3 | Varint
	nanos                     = 5<<3 | Varint
	class                     = 6<<3 | Bytes
	verdict                   = 7<<3 | Bytes
	path                      = 8<<3 | Bytes
	reporter                  = 9<<3 | Bytes
	direction                 = 10<<3 | Bytes
	principal                 = 11<<3 | Bytes
	namespace                 = 12<<3 | Bytes
	serviceAccount            = 13<<3 | Bytes
	workloadName              = 14<<3 | Bytes
	labels                    = 15<<3 | Bytes
	source                    = 16<<3 | Bytes
	claim                     = 17<<3 | Bytes
	forwardedFor              = 18<<3 | Bytes
	host                      = 19<<3 | Bytes
	port                      = 20<<3 | Varint
	sni                       = 21<<3 | Bytes
	authority                 = 22<<3 | Bytes
	dialled                   = 23<<3 | Bytes
	destination               = 24<<3 | Bytes
	destinationPrincipal      = 25<<3 | Bytes
	destinationNamespace      = 26<<3 | Bytes
	destinationServiceAccount = 27<<3 | Bytes
	destinationName           = 28<<3 | Bytes
	destinationLabels         = 29<<3 | Bytes
	protocol                  = 30<<3 | Bytes
	method                    = 31<<3 | Bytes
	urlPath                   = 32<<3 | Bytes
	status                    = 33<<3 | Varint
	cluster                   = 34<<3 | Bytes
	route                     = 35<<3 | Bytes
	decidedByKind             = 36<<3 | Bytes
	decidedByNamespace        = 37<<3 | Bytes
	decidedByName             = 38<<3 | Bytes
	decidedByRule             = 39<<3 | Bytes
	decidedByRevision         = 40<<3 | Bytes
	reason                    = 41<<3 | Bytes
	bytesSent                 = 42<<3 | Varint
	bytesReceived             = 43<<3 | Varint
	durationNanos             = 44<<3 | Varint
	flags                     = 45<<3 | Bytes
	lost                      = 46<<3 | Varint
	cut                       = 47<<3 | Bytes
	allowedByKind             = 48<<3 | Bytes
	allowedByNamespace        = 49<<3 | Bytes
	allowedByName             = 50<<3 | Bytes
	allowedByRule             = 51<<3 | Bytes
	allowedByRevision         = 52<<3 | Bytes
	wouldDenyKind             = 53<<3 | Bytes
	wouldDenyNamespace        = 54<<3 | Bytes
	wouldDenyName             = 55<<3 | Bytes
	wouldDenyRule             = 56<<3 | Bytes
	wouldDenyRevision         = 57<<3 | Bytes
	actor                     = 58<<3 | Bytes
	actorBy                   = 59<<3 | Bytes
	action                    = 60<<3 | Bytes
)
