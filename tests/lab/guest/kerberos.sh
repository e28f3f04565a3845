# shellcheck shell=bash
# Kerberos: the realm LAB, whose key distribution centre is on the server. Sourced by both roles when KERBEROS=1.
cat > /etc/hosts <<END
127.0.0.1 localhost
10.9.0.1 server.lab server
10.9.0.2 client.lab client
END
cat > /etc/krb5.conf <<END
[libdefaults]
    default_realm = LAB
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    LAB = {
        kdc = 10.9.0.1
    }
[domain_realm]
    .lab = LAB
END
hostname "$(hostname).lab"
modprobe -a auth_rpcgss rpcsec_gss_krb5
mkdir -p /run/rpc_pipefs
mount -t rpc_pipefs rpc /run/rpc_pipefs

kerberos_on_the_server() {
    mkdir -p /etc/krb5kdc /var/lib/krb5kdc
    cat > /etc/krb5kdc/kdc.conf <<END
[realms]
    LAB = {
        database_name = /var/lib/krb5kdc/principal
        key_stash_file = /etc/krb5kdc/stash
    }
END
    kdb5_util create -s -P laboratory -r LAB
    kadmin.local -q 'addprinc -randkey nfs/server.lab'
    kadmin.local -q 'addprinc -randkey nfs/client.lab'
    kadmin.local -q 'ktadd -k /etc/krb5.keytab nfs/server.lab'
    kadmin.local -q 'ktadd -k /shared/client.keytab nfs/client.lab'
    krb5kdc
    rpc.svcgssd -f -vv > /shared/server.svcgssd 2>&1 &
}

kerberos_on_the_client() {
    cp /shared/client.keytab /etc/krb5.keytab
    rpc.gssd -f -vv -p /run/rpc_pipefs > /shared/client.gssd 2>&1 &
    sleep 3
}
