# For scripts that measure by programs of others. own_server starts build/bin/petrel on a folder of its own, without the
# limits that hold for one address, and exports PETREL_URL and PETREL_ADMIN_KEY; end_server stops it.
# With PETREL_URL and PETREL_ADMIN_KEY of a running server nothing is started.

own_server() {
	[ -z "${PETREL_ADMIN_KEY:-}" ] || return 0
	own=$(mktemp -d "${TMPDIR:-/tmp}/petrel-XXXXXX")
	build/bin/petrel serve --data "$own/data" --listen-http 127.0.0.1:0 --listen-tcp 127.0.0.1:0 --listen-admin 127.0.0.1:0 \
		--limits-new-connections-per-ip-per-s=-1 --limits-unauthenticated-per-ip=-1 --limits-connections-per-ip=-1 --limits-sends-per-s=-1 \
		>"$own/addresses" 2>"$own/log" &
	own_pid=$!
	trap end_server EXIT
	for _ in $(seq 200); do
		[ ! -s "$own/addresses" ] || break
		kill -0 $own_pid 2>/dev/null || { cat "$own/log" >&2; return 1; }
		sleep 0.1
	done
	address() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$own/addresses" | head -1; }
	PETREL_URL=http://$(address http)
	build/bin/petrel user create nobody --data "$own/data" >/dev/null # which makes the key
	PETREL_ADMIN_KEY=$(cat "$own/data/admin.key")
	export PETREL_URL PETREL_ADMIN_KEY
}

end_server() {
	[ -n "${own:-}" ] || return 0
	kill $own_pid 2>/dev/null && wait $own_pid || :
	rm -rf "$own"
	own=
	unset PETREL_URL PETREL_ADMIN_KEY
	trap - EXIT
}
