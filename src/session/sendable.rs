//! Which files may leave for a chat. An agent reads what strangers write, and may be talked into naming any file at all:
//! so only what lies where files to be sent belong, and nothing that is a secret by its place or its name.

use std::path::{Component, Path, PathBuf};

use super::attachment::one_line;

/// The longest name that is shown of a file, in characters.
const LONGEST_NAME: usize = 100;

/// Where the file really is, if it may be sent: to be opened by that name and no other. An error is a sentence for the
/// person.
pub fn may_be_sent(
    path: &Path,
    allowed_roots: &[PathBuf],
    longest: u64,
) -> Result<PathBuf, String> {
    check(path, allowed_roots, longest).map_err(|why| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = one_line(&name.to_string_lossy(), LONGEST_NAME);
        format!("{name} is not sent: {why}.")
    })
}

fn check(path: &Path, allowed_roots: &[PathBuf], longest: u64) -> Result<PathBuf, String> {
    let path = at_home(path).ok_or("its path does not begin at the root or at your home")?;
    let whole = path.canonicalize();
    let whole = whole.map_err(|error| format!("it cannot be found ({error})"))?;
    let roots = allowed_roots
        .iter()
        .filter_map(|root| root.canonicalize().ok());
    let below: Vec<PathBuf> = roots
        .filter_map(|root| whole.strip_prefix(root).map(Path::to_owned).ok())
        .collect();
    if below.is_empty() {
        return Err("it is outside of the directories that files are sent from".into());
    }
    if below.iter().all(|below| is_secret(below)) || is_secret_name(&whole) {
        return Err("it is hidden, or a file that may hold secrets".into());
    }
    // The path has no links left in it, so this is the file itself.
    let file = whole
        .symlink_metadata()
        .map_err(|error| format!("it cannot be looked at ({error})"))?;
    match file.len() {
        _ if !file.is_file() => Err("it is no file".into()),
        0 => Err("it is empty".into()),
        size if size > longest => Err(format!(
            "it is larger than {}, the most that can be sent",
            in_words(longest)
        )),
        _ => Ok(whole),
    }
}

/// With the home of the person in the place of `~`. `None`: it begins nowhere in particular.
fn at_home(path: &Path) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(below) => std::env::home_dir().map(|home| home.join(below)),
        Err(_) => path.is_absolute().then(|| path.to_owned()),
    }
}

/// Whether anything on the way is hidden or a place for secrets.
fn is_secret(below: &Path) -> bool {
    below.components().any(|component| match component {
        Component::Normal(name) => {
            let name = name.to_string_lossy().to_lowercase();
            name.starts_with('.') || ["pairing", "mcp-tokens", "credentials"].contains(&&*name)
        }
        _ => false,
    })
}

/// Names under which this house, Hermes and others keep keys, tokens and what was said.
fn is_secret_name(path: &Path) -> bool {
    const NAMES: [&str; 14] = [
        "auth.json",
        "auth.lock",
        "bws_cache.json",
        "config.yaml",
        "config.yml",
        "credentials",
        "credentials.json",
        "gateway.json",
        "google_oauth.json",
        "google_oauth_pending.json",
        "google_token.json",
        "hermesd.toml",
        "token.json",
        "webhook_subscriptions.json",
    ];
    const ENDINGS: [&str; 9] = [
        ".db", ".env", ".key", ".p12", ".pem", ".pfx", ".sqlite", ".sqlite3", "_rsa",
    ];
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_lowercase();
    // What a database writes beside itself.
    let kept = ["-wal", "-shm", "-journal"].iter();
    let name = kept.fold(name.as_str(), |name, ending| {
        name.strip_suffix(ending).unwrap_or(name)
    });
    name.starts_with(".env")
        || name.starts_with("id_ed25519")
        || NAMES.contains(&name)
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn in_words(bytes: u64) -> String {
    match bytes {
        ..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const LONGEST: u64 = 1000;

    /// A directory with a hidden root in it, and what lies beside that.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Place {
            let place = Place(tempfile::tempdir().unwrap());
            std::fs::create_dir(place.path(".hermes")).unwrap();
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn file(&self, name: &str, size: usize) -> PathBuf {
            let path = self.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, vec![b'x'; size]).unwrap();
            path
        }

        fn may(&self, path: &Path) -> Result<PathBuf, String> {
            may_be_sent(path, &[self.path("nowhere"), self.path(".hermes")], LONGEST)
        }
    }

    #[test]
    fn a_file_below_a_root_may_be_sent_though_the_root_is_hidden() {
        let place = Place::new();
        for size in [1, 1000] {
            let file = place.file(".hermes/out/a.png", size);
            assert_eq!(place.may(&file), Ok(file.canonicalize().unwrap()));
        }
        let roundabout = place.path(".hermes/out/../out/a.png");
        assert_eq!(
            place.may(&roundabout),
            Ok(place.path(".hermes/out/a.png").canonicalize().unwrap())
        );
    }

    #[test]
    fn what_is_no_file_or_empty_or_too_large_is_refused_in_a_sentence() {
        let place = Place::new();
        let refused = |path: &Path, sentence: &str| {
            assert_eq!(place.may(path), Err(sentence.to_owned()));
        };
        refused(
            &place.path(".hermes/a\nb.png"),
            "a b.png is not sent: it cannot be found (No such file or directory (os error 2)).",
        );
        refused(
            &place.file(".hermes/e.png", 0),
            "e.png is not sent: it is empty.",
        );
        refused(
            &place.file(".hermes/l.png", 1001),
            "l.png is not sent: it is larger than 1 kB, the most that can be sent.",
        );
        std::fs::create_dir(place.path(".hermes/d")).unwrap();
        refused(&place.path(".hermes/d"), "d is not sent: it is no file.");
        let pipe = place.path(".hermes/p");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        refused(&pipe, "p is not sent: it is no file.");
        refused(
            Path::new("a.png"),
            "a.png is not sent: its path does not begin at the root or at your home.",
        );
    }

    #[test]
    fn whatever_leads_out_of_the_roots_is_refused() {
        let place = Place::new();
        let outside = place.file("outside/a.png", 1);
        std::fs::create_dir(place.path(".hermesx")).unwrap();
        let beside = place.file(".hermesx/a.png", 1);
        let link = place.path(".hermes/link.png");
        symlink(&outside, &link).unwrap();
        let way = place.path(".hermes/way");
        symlink(place.path("outside"), &way).unwrap();
        let up = place.path(".hermes/../outside/a.png");
        for path in [outside, beside, link, way.join("a.png"), up] {
            let error = place.may(&path).unwrap_err();
            assert!(error.ends_with("files are sent from."), "{path:?}: {error}");
        }
        // A link that stays inside is what it leads to, and so is a root that is one.
        let inside = place.file(".hermes/b.png", 1);
        symlink(&inside, place.path(".hermes/c.png")).unwrap();
        symlink(place.path(".hermes"), place.path("root")).unwrap();
        let path = place.path("root/c.png");
        let sent = may_be_sent(&path, &[place.path("root")], LONGEST);
        assert_eq!(sent, Ok(inside.canonicalize().unwrap()));
        assert!(may_be_sent(&inside, &[], LONGEST).is_err());
    }

    #[test]
    fn secrets_are_never_sent() {
        let place = Place::new();
        for name in [
            ".env",
            ".env.local",
            "prod.env",
            "state.db",
            "State.DB",
            "state.db-wal",
            "config.yaml",
            "auth.json",
            "hermesd.toml",
            "id_ed25519",
            "deploy.pem",
            ".ssh/known",
            ".hidden.png",
            "a/.git/b.png",
            "mcp-tokens/x.json",
            "pairing/x.png",
        ] {
            let path = place.file(&format!(".hermes/{name}"), 1);
            let error = place.may(&path).unwrap_err();
            assert!(error.contains("secrets"), "{name}: {error}");
        }
        // Under another name they are the same.
        let link = place.path(".hermes/pretty.png");
        symlink(place.path(".hermes/state.db"), &link).unwrap();
        assert!(place.may(&link).unwrap_err().contains("secrets"));
        // A name of that kind is one below any root, a hidden place only below roots that do not contain it.
        let roots = [place.path(""), place.path(".hermes/.ssh")];
        let hidden = place.path(".hermes/.ssh/known");
        assert!(may_be_sent(&hidden, &roots[..1], LONGEST).is_err());
        assert!(may_be_sent(&hidden, &roots, LONGEST).is_ok());
        let named = place.file(".hermes/.ssh/.env", 1);
        assert!(may_be_sent(&named, std::slice::from_ref(&named), LONGEST).is_err());
    }

    #[test]
    fn the_persons_home_may_be_a_tilde() {
        let home = std::env::home_dir().unwrap();
        assert_eq!(at_home(Path::new("~/a b")), Some(home.join("a b")));
        assert_eq!(at_home(Path::new("~other/a")), None);
        assert_eq!(at_home(Path::new("/~/a")), Some(PathBuf::from("/~/a")));
    }
}
