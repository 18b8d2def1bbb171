/* Looks each argument up as programs do, and prints one line: the name, then its addresses or the error's number. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct addrinfo hints, *list = NULL;
		memset(&hints, 0, sizeof hints);
		hints.ai_family = AF_UNSPEC;
		hints.ai_socktype = SOCK_STREAM;
		int err = getaddrinfo(argv[i], "443", &hints, &list);
		printf("%s", argv[i]);
		if (err)
			printf(" error%d", err);
		for (struct addrinfo *a = list; a; a = a->ai_next) {
			char text[INET6_ADDRSTRLEN];
			void *addr = a->ai_family == AF_INET ? (void *)&((struct sockaddr_in *)a->ai_addr)->sin_addr
							     : (void *)&((struct sockaddr_in6 *)a->ai_addr)->sin6_addr;
			printf(" %s", inet_ntop(a->ai_family, addr, text, sizeof text));
		}
		printf("\n");
		if (list)
			freeaddrinfo(list);
	}
	return 0;
}
