use crate::safe_open::{by_descriptor, open_below};
use std::os::unix::fs::symlink;

use crate::delivery::file_policy::*;

const LONGEST: u64 = 1000;

/// A directory with a hidden root in it, and files beside the root.
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

    fn may(&self, path: &Path) -> Result<String, String> {
        may(path, &[self.path("nowhere"), self.path(".hermes")], &[])
    }
}

fn may(path: &Path, roots: &[PathBuf], private: &[PathBuf]) -> Result<String, String> {
    let rules = SendRules {
        roots,
        private,
        longest: LONGEST,
    };
    open_to_send(path, &rules).map(|opened| opened.name)
}

/// The text about a file that is missing or refused.
fn refused(path: &Path) -> Result<String, String> {
    let name = path.file_name().unwrap().to_str().unwrap();
    Err(format!("{name} is not sent: {REFUSED}."))
}

#[test]
fn a_file_below_a_root_may_be_sent_though_the_root_is_hidden() {
    let place = Place::new();
    for size in [1, 1000] {
        let file = place.file(".hermes/out/a.png", size);
        assert_eq!(place.may(&file), Ok("a.png".into()));
    }
    let roundabout = place.path(".hermes/out/../out/a.png");
    assert_eq!(place.may(&roundabout), Ok("a.png".into()));
}

#[test]
fn what_is_no_file_or_empty_or_too_large_is_refused_in_a_sentence() {
    let place = Place::new();
    let refused = |path: &Path, sentence: &str| {
        assert_eq!(place.may(path), Err(sentence.to_owned()));
    };
    refused(
        &place.path(".hermes/a\nb.png"),
        "a b.png is not sent: it is not there, or may not be sent.",
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
    refused(
        &place.path(".hermes/d"),
        "d is not sent: not a regular file.",
    );
    let pipe = place.path(".hermes/p");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    refused(&pipe, "p is not sent: not a regular file.");
    refused(
        Path::new("a.png"),
        "a.png is not sent: its path does not begin at the root or at your home.",
    );
}

#[test]
fn what_is_missing_outside_or_secret_is_refused_in_the_same_words() {
    let place = Place::new();
    let outside = place.file("outside/a.png", 1);
    std::fs::create_dir(place.path(".hermesx")).unwrap();
    let beside = place.file(".hermesx/a.png", 1);
    let way = place.path(".hermes/way");
    symlink(place.path("outside"), &way).unwrap();
    for path in [
        &outside,
        &beside,
        &way.join("a.png"),
        &place.path(".hermes/../outside/a.png"),
        &place.path(".hermes/missing/a.png"),
        &place.path("outside/missing.png"),
        &place.file(".hermes/a/.git/b.png", 1),
        &place.file(".hermes/.hidden.png", 1),
        &place.file(".hermes/mcp-tokens/x.json", 1),
        &place.file(".hermes/state.db.bak", 1),
    ] {
        assert_eq!(place.may(path), refused(path), "{path:?}");
    }
}

#[test]
fn a_link_is_not_followed_and_a_second_name_is_refused() {
    let place = Place::new();
    let (inside, outside) = (place.file(".hermes/b.png", 1), place.file("outside.png", 1));
    let link = |target: &Path, name: &str| {
        let link = place.path(name);
        symlink(target, &link).unwrap();
        link
    };
    for link in [
        link(&inside, ".hermes/c.png"),
        link(&outside, ".hermes/d.png"),
    ] {
        assert_eq!(place.may(&link), refused(&link));
    }
    // The kernel's links to open files, and to the root of a process.
    let open = File::open(&inside).unwrap();
    let by_descriptor = by_descriptor(&open);
    assert_eq!(place.may(&by_descriptor), refused(&by_descriptor));
    let by_process = Path::new("/proc/self/root").join(inside.strip_prefix("/").unwrap());
    assert_eq!(place.may(&by_process), refused(&by_process));
    // A root may be a link, and so may a directory whose target stays inside.
    symlink(place.path(".hermes"), place.path("root")).unwrap();
    let by_root = place.path("root/b.png");
    assert_eq!(
        may(&by_root, &[place.path("root")], &[]),
        Ok("b.png".into())
    );
    std::fs::hard_link(&outside, place.path(".hermes/hard.png")).unwrap();
    let hard = place.path(".hermes/hard.png");
    assert_eq!(place.may(&hard), refused(&hard));
}

#[test]
fn neither_the_root_directory_nor_a_private_one_makes_files_sendable() {
    let place = Place::new();
    let file = place.file("me/work/a.png", 1);
    let (me, work) = (place.path("me"), place.path("me/work"));
    let private = std::slice::from_ref(&me);
    for root in [Path::new("/"), place.0.path(), &me] {
        assert_eq!(may(&file, &[root.to_owned()], private), refused(&file));
    }
    assert_eq!(
        may(&file, std::slice::from_ref(&work), private),
        Ok("a.png".into())
    );
    let both = [me, work.clone()];
    assert_eq!(may(&file, &[work], &both), refused(&file));
    assert_eq!(may(&file, &[], &[]), refused(&file));
}

#[test]
fn a_file_of_another_user_is_refused() {
    if !geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let file = place.file(".hermes/a.png", 1);
    std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
    assert_eq!(place.may(&file), refused(&file));
}

#[test]
fn a_root_inside_of_a_place_for_secrets_is_none() {
    let place = Place::new();
    let file = place.file(".ssh/known", 1);
    assert_eq!(may(&file, &[place.path(".ssh")], &[]), refused(&file));
}

#[test]
fn keys_and_databases_are_known_by_what_is_inside() {
    let place = Place::new();
    for content in [
        "SQLite format 3\0 and so on",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nx",
        "a note\n-----BEGIN RSA PRIVATE KEY-----\nx",
        "PuTTY-User-Key-File-3: ssh-ed25519\n",
    ] {
        let file = place.path(".hermes/pretty.txt");
        std::fs::write(&file, content).unwrap();
        assert_eq!(place.may(&file), refused(&file), "{content}");
    }
}

#[test]
fn a_file_that_grows_while_it_is_copied_is_cut_off() {
    let place = Place::new();
    let path = place.file(".hermes/a.log", 10);
    let rules = SendRules {
        roots: &[place.path(".hermes")],
        private: &[],
        longest: LONGEST,
    };
    let mut opened = open_to_send(&path, &rules).unwrap();
    std::fs::write(&path, vec![b'x'; 2000]).unwrap();
    let mut to = File::create(place.path("copy")).unwrap();
    let error = opened.copy_to(&mut to, LONGEST).unwrap_err();
    assert!(error.starts_with("it is larger than 1 kB"), "{error}");
}

#[test]
fn the_persons_home_may_be_a_tilde() {
    let home = std::env::home_dir().unwrap();
    assert_eq!(at_home(Path::new("~/a b")), Some(home.join("a b")));
    assert_eq!(at_home(Path::new("~other/a")), None);
    assert_eq!(at_home(Path::new("/~/a")), Some(PathBuf::from("/~/a")));
}

#[test]
fn a_file_is_taken_from_below_its_root_alone() {
    let place = Place::new();
    let root = place.path(".hermes");
    let inside = place.file(".hermes/1/photo.jpg", 3);
    let outside = place.file("secret.jpg", 3);
    assert_eq!(
        open_below(&inside, &root)
            .unwrap()
            .metadata()
            .unwrap()
            .len(),
        3
    );
    symlink(&outside, place.path(".hermes/link.jpg")).unwrap();
    symlink(place.0.path(), place.path(".hermes/way")).unwrap();
    for path in [
        outside.clone(),
        place.path(".hermes/link.jpg"),
        place.path(".hermes/way/secret.jpg"),
        place.path(".hermes/../secret.jpg"),
        place.path(".hermes/missing"),
        root.clone(),
    ] {
        assert!(open_below(&path, &root).is_err(), "{path:?}");
    }
    assert!(open_below(&inside, Path::new("/")).is_err());
    assert!(open_below(&inside, Path::new("")).is_err());
}
