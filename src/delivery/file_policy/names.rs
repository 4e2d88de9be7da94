//! Recognises files with keys, passwords, tokens or conversations by name and place. Copies and backups are recognised
//! like the file itself.

use std::path::{Component, Path};

/// Directories with secrets, anywhere in a path.
#[rustfmt::skip]
const DIRECTORIES: [&str; 22] = [
    ".1password", ".aws", ".azure", ".bitcoin", ".docker", ".electrum", ".ethereum", ".gcloud", ".gnupg", ".kube", ".mozilla",
    ".password-store", ".pki", ".putty", ".ssh", ".thunderbird", ".vault", "credentials", "keyrings", "mcp-tokens", "pairing",
    "secrets",
];

/// Extensions, also before another one: `state.db.bak`, `server.key.old`, `prod.env.local`.
#[rustfmt::skip]
const KINDS: [&str; 43] = [
    // Databases and their auxiliary files.
    "db", "db3", "kdb", "mdb", "rdb", "sqlite", "sqlite2", "sqlite3",
    // Keys and certificates with keys.
    "agekey", "asc", "bcfks", "gpg", "jceks", "jks", "key", "keystore", "keytab", "kirbi", "ovpn", "p12", "p8", "pem", "pfx",
    "pgp", "pkcs12", "ppk", "pvk", "skr", "truststore",
    // Password stores and wallets.
    "1pif", "1pux", "agilekeychain", "kdbx", "keychain", "kwallet", "opvault", "psafe3", "wallet",
    // Settings with secrets.
    "env", "htpasswd", "netrc", "tfstate", "tfvars",
];

/// Words in the name of a file with secrets.
#[rustfmt::skip]
const WORDS: [&str; 28] = [
    "apikey", "apikeys", "cookies", "credential", "credentials", "creds", "gshadow", "htpasswd", "keyring", "keychain",
    "kubeconfig", "netrc", "oauth", "passphrase", "passphrases", "passwd", "password", "passwords", "pgpass", "pwd",
    "secret", "secrets", "shadow", "sudoers", "token", "tokens", "vault", "wallet",
];

/// Pairs of words in the name of a file with secrets.
const PAIRS: [(&str, &str); 5] = [
    ("api", "key"),
    ("access", "key"),
    ("private", "key"),
    ("secret", "key"),
    ("login", "data"),
];

/// Names of Hermes, of hermesd and of browsers, without their last extension.
#[rustfmt::skip]
const NAMES: [&str; 8] = [
    "auth", "bws_cache", "config", "gateway", "google_oauth_pending", "hermesd", "logins", "webhook_subscriptions",
];
/// The extensions with which these names are refused.
const NAMED: [&str; 7] = ["cfg", "ini", "json", "lock", "toml", "yaml", "yml"];

/// Algorithms after which keys are named: `id_ecdsa`, `deploy_ed25519`.
const ALGORITHMS: [&str; 5] = ["dsa", "ecdsa", "ed25519", "rsa", "xmss"];

/// Extensions that a copy adds to the name.
#[rustfmt::skip]
const COPIES: [&str; 22] = [
    "7z", "backup", "bak", "bk", "br", "bz2", "copy", "dist", "gz", "lz4", "new", "old", "orig", "prev", "save", "swo", "swp",
    "tar", "tmp", "xz", "zip", "zst",
];

/// Pictures, sound, video and print. They may be about a token or a password, but do not store one.
#[rustfmt::skip]
const SHOWN: [&str; 19] = [
    "avif", "bmp", "gif", "heic", "jpeg", "jpg", "m4a", "mkv", "mov", "mp3", "mp4", "oga", "ogg", "opus", "pdf", "png", "svg",
    "webm", "webp",
];

/// Whether a directory of this path is a directory with secrets.
pub(super) fn in_secret_directory(path: &Path) -> bool {
    let parent = path.parent().into_iter();
    names(parent.flat_map(Path::components)).any(|name| DIRECTORIES.contains(&&*name))
}

/// Whether any part of this path is hidden.
pub(super) fn is_hidden(below: &Path) -> bool {
    names(below.components()).any(|name| name.starts_with('.'))
}

fn names<'a>(components: impl Iterator<Item = Component<'a>>) -> impl Iterator<Item = String> {
    components.filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_string_lossy().to_lowercase()),
        _ => None,
    })
}

/// Whether this is the name of a file with secrets, or of a copy of one.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let name = original(&name);
    let mut parts = name.split('.');
    let stem = parts.next().unwrap_or_default();
    let kinds: Vec<&str> = parts.map(original_part).collect();
    let last = kinds.last().copied().unwrap_or_default();
    if kinds.iter().any(|kind| KINDS.contains(kind)) || is_key(stem) {
        return true;
    }
    if NAMES.contains(&stem) && NAMED.contains(&last) {
        return true;
    }
    let words: Vec<&str> = name
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let names_a_secret = words.iter().any(|word| WORDS.contains(word))
        || words
            .windows(2)
            .any(|pair| PAIRS.contains(&(pair[0], pair[1].trim_end_matches('s'))));
    names_a_secret && !SHOWN.contains(&last)
}

/// Names such as `id_rsa`, `id_ed25519_sk`, `ssh_host_ecdsa_key` and `deploy-rsa`.
fn is_key(stem: &str) -> bool {
    let mut words = stem.split(['_', '-']);
    let first = words.next();
    let named = words.clone().any(|word| ALGORITHMS.contains(&word));
    stem.starts_with("ssh_host_") || named || (first == Some("identity") && words.next().is_none())
}

/// The name without the suffixes of backups, editors and databases.
fn original(name: &str) -> &str {
    let mut name = name;
    loop {
        let before = name;
        name = name.trim_end_matches(|c: char| c == '~' || c == '#' || c.is_whitespace());
        if let Some((rest, last)) = name.rsplit_once('.')
            && (COPIES.contains(&last) || last.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
        {
            name = rest;
        }
        if name == before {
            return name;
        }
    }
}

/// `db-wal`, `db_2024` and `key (1)` are `db` and `key`.
fn original_part(part: &str) -> &str {
    let end = part.find(|c: char| !c.is_alphanumeric());
    &part[..end.unwrap_or(part.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_kind() {
        for name in [
            ".env",
            ".env.local",
            ".env.production.bak",
            "prod.env",
            "prod.env.old",
            "state.db",
            "State.DB",
            "state.db-wal",
            "state.db-shm",
            "state.db.bak",
            "state.db.bak.gz",
            "state.db~",
            "state.db.2026-01-31",
            "state.db_backup",
            "app.sqlite3.1",
            "config.yaml",
            "config.yaml.bak",
            "auth.json",
            "hermesd.toml",
            "hermesd.toml~",
            "id_rsa",
            "id_dsa",
            "id_ecdsa",
            "id_ecdsa.bak",
            "id_ecdsa_sk",
            "id_ed25519",
            "id_ed25519.pub",
            "deploy_rsa",
            "work-ed25519",
            "ssh_host_ed25519_key",
            "identity",
            "deploy.pem",
            "server.key",
            "server.key.old",
            "cert.p12",
            "passwords.kdbx",
            "Passwords.KDBX.bak",
            "vault.kdb",
            "login.keychain-db",
            "private.asc",
            "secring.gpg",
            "wallet.dat",
            "credentials",
            "credentials.json",
            "aws-credentials.csv",
            "client_secret_123.apps.json",
            "google_token.json",
            "api_keys.txt",
            "api-key.txt",
            "private_key.txt",
            "passwd",
            "shadow",
            "shadow-",
            "passwords.xlsx",
            "Login Data",
            "Cookies",
            "logins.json",
            "key4.db",
            "terraform.tfstate.backup",
            "kubeconfig",
            "client.ovpn",
            ".netrc",
            ".pgpass",
        ] {
            assert!(is_secret(name), "{name}");
        }
    }

    #[test]
    fn what_agents_make_for_people_is_no_secret() {
        for name in [
            "report.pdf",
            "photo.jpg",
            "chart.png",
            "keyboard.png",
            "token usage.png",
            "password-policy.pdf",
            "notes.md",
            "main.rs",
            "data.csv",
            "config.rs",
            "state.png",
            "archive.tar.gz",
            "a.b.c.txt",
            "identity-card.jpg",
            "Übersicht.docx",
            "monkey.txt",
            "README",
            "update-2026.log",
            "package.json",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn places_for_secrets_are_known_wherever_they_are() {
        for path in [
            "/home/u/.ssh/known_hosts",
            "/x/.GnuPG/a/b.png",
            "/x/secrets/a.png",
        ] {
            assert!(in_secret_directory(Path::new(path)), "{path}");
        }
        assert!(!in_secret_directory(Path::new("/home/u/pictures/a.png")));
        assert!(is_hidden(Path::new("a/.git/b.png")) && is_hidden(Path::new(".b.png")));
        assert!(!is_hidden(Path::new("a/b.png")));
    }
}
