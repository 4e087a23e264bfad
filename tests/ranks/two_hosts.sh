#!/usr/bin/env bash
# Trains on two hosts: two network namespaces of this machine, with a hostname each, which a virtual cable joins. They share
# the disk and nothing else. mpirun starts the ranks of the second one through an agent, as it would through ssh.
#
#     sudo tests/ranks/two_hosts.sh -n 4 target/release/millstream train run.toml
#
# Needs Linux, root, iproute2 and Open MPI. KILL=SECONDS pulls the cable after so many seconds.
set -euo pipefail

one=mill-one two=mill-two
agent=$(mktemp)
leave() {
    rm -f "$agent"
    ip netns del $one 2>/dev/null || true
    ip netns del $two 2>/dev/null || true
}
trap leave EXIT
leave 2>/dev/null

ip netns add $one
ip netns add $two
ip link add cable0 netns $one type veth peer name cable1 netns $two
ip -n $one addr add 10.77.0.1/24 dev cable0
ip -n $two addr add 10.77.0.2/24 dev cable1
for host in $one:cable0 $two:cable1; do
    ip -n "${host%:*}" link set lo up
    ip -n "${host%:*}" link set "${host#*:}" up
done

# What ssh would be: the first argument is the host, the others are what it runs there.
cat >"$agent" <<AGENT
#!/usr/bin/env bash
shift
exec ip netns exec $two unshare --uts bash -c 'hostname two; eval "\$1"' agent "\$*"
AGENT
chmod +x "$agent"

if [ -n "${KILL:-}" ]; then
    (sleep "$KILL" && ip -n $one link set cable0 down && echo "the cable is out") &
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
exec_one() { ip netns exec $one unshare --uts bash -c 'hostname one; exec "$@"' one "$@"; }
began=$SECONDS
code=0
exec_one mpirun --host 10.77.0.1:8,10.77.0.2:8 --mca plm_rsh_agent "$agent" --mca btl tcp,self \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 --bind-to none \
    --map-by node "$@" || code=$?
echo "mpirun ended with code $code after $((SECONDS - began)) s"
exit "$code"
