//! What is kept of the files that people send: from where it is taken, how much and for how long.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::support::bot::Bot;
use crate::support::telegram::ADA;
use crate::support::{Daemon, program, told, until};

/// A bot whose agent writes down what it is told, and the number of Ada's chat.
fn start(more: &[(&str, &str)]) -> (Bot, i64, Daemon) {
    let (bot, chat) = Bot::of_ada("");
    let (command, _) = program(&bot.home, "agent", "cat >> \"$OUT\"; echo seen");
    let settings = [
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", command.as_str()),
    ];
    let daemon = bot.start_with(&[&settings[..], more].concat());
    (bot, chat, daemon)
}

/// Sends a file, and gives what the agent was told of it.
fn send(bot: &Bot, chat: i64, name: &str, bytes: &[u8]) -> Value {
    let out = bot.home.path().join("agent.out");
    let before = told(&out).len();
    bot.api
        .writes(chat, &ADA)
        .text("look")
        .file("document", name, bytes)
        .send();
    until("the agent gets it", || told(&out).into_iter().nth(before))
}

fn path_of(told: &Value) -> PathBuf {
    told["attachments"][0]["path"]
        .as_str()
        .expect("a path")
        .into()
}

#[test]
fn a_bot_api_server_cannot_name_any_file_of_this_machine() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("bot-api");
    std::fs::create_dir(&root).unwrap();
    let write = |path: &Path, size: usize| std::fs::write(path, vec![b'x'; size]).unwrap();
    let (secret, fine, large) = (
        place.path().join("shadow"),
        root.join("photo.jpg"),
        root.join("large.jpg"),
    );
    write(&secret, 10);
    write(&fine, 10);
    write(&large, 2_000_000);
    std::os::unix::fs::symlink(&secret, root.join("link.jpg")).unwrap();
    let (bot, chat, _daemon) = start(&[
        ("HERMESD_CHATS_LARGEST_FILE", "1"),
        (
            "HERMESD_PLATFORMS_TELEGRAM_LOCAL_FILES",
            root.to_str().unwrap(),
        ),
    ]);
    let named = |path: &Path| {
        bot.api.keeps_files_at(path.to_str().unwrap());
        let told = send(&bot, chat, "photo.jpg", b"unused");
        let got = told["attachments"].as_array().unwrap().len();
        (got, told["message"].as_str().unwrap().to_owned())
    };
    for path in [&secret, &root.join("link.jpg"), &root.join("../shadow")] {
        let (got, words) = named(path);
        assert_eq!(got, 0, "{path:?}: {words}");
        assert!(!words.contains("shadow"), "{words}");
    }
    let (got, words) = named(&large);
    assert_eq!(got, 0, "{words}");
    assert!(words.contains("larger than 1 MB"), "{words}");
    let (got, words) = named(&fine);
    assert_eq!(got, 1, "{words}");
    // Nothing of what was refused is left.
    let kept = std::fs::read_dir(bot.home.path().join(format!("files/telegram/chat{chat}")));
    assert_eq!(kept.unwrap().count(), 1);
}

#[test]
fn files_of_chats_have_a_quota() {
    let (bot, chat, _daemon) = start(&[("HERMESD_CHATS_FILES_QUOTA", "1")]);
    let big = vec![b'x'; 700_000];
    let first = path_of(&send(&bot, chat, "first.bin", &big));
    assert!(first.exists());
    let second = path_of(&send(&bot, chat, "second.bin", &big));
    assert!(second.exists() && !first.exists());
}

#[test]
fn old_files_are_removed_at_the_start() {
    let (bot, _) = Bot::of_ada("");
    let aged = |name: &str, days: u64| {
        let name = format!("files/telegram/chat1/{name}");
        bot.home.write(&name, "x");
        let path = bot.home.path().join(name);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let at = SystemTime::now() - Duration::from_secs(days * 86_400);
        file.set_modified(at).unwrap();
        path
    };
    let (old, young) = (aged("old", 31), aged("young", 29));
    let _daemon = bot.start();
    until("the old one is removed", || (!old.exists()).then_some(()));
    assert!(young.exists());
}
