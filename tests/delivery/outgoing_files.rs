//! Which files an agent can have sent to a chat, played by an attacker who decides what the agent says.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::bot::{Bot, Side};
use crate::support::telegram::{ADA, BEN};
use crate::support::{Daemon, program, seed_session, told, until};

const KEY: &str = "the owner's private key";

/// A bot whose agent says what `agent.reply` holds, and a directory outside of the home. Only `tmp/` in it is a temporary
/// directory.
struct Attack {
    bot: Bot,
    chat: i64,
    outside: tempfile::TempDir,
    _daemon: Daemon,
}

impl Attack {
    fn begin(more: &str) -> Attack {
        let (bot, chat) = Bot::of_ada(more);
        // Not hidden: what is hidden is refused anyway.
        let mut outside = tempfile::Builder::new();
        let outside = outside.prefix("outside-").tempdir().unwrap();
        let tmp = outside.path().join("tmp");
        std::fs::create_dir(&tmp).unwrap();
        let (command, _) = program(&bot.home, "agent", "cat >> \"$OUT\"; cat \"$0.reply\"");
        bot.home.write("agent.reply", "ready");
        let daemon = bot.start_with(&[
            ("HERMESD_AGENT_DEFAULT", "command"),
            ("HERMESD_AGENTS_COMMAND_COMMAND", &command),
            ("TMPDIR", tmp.to_str().unwrap()),
        ]);
        Attack {
            bot,
            chat,
            outside,
            _daemon: daemon,
        }
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.outside.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// What the chat reads when the agent names this file. It gets no file.
    fn refusal(&self, path: &Path) -> String {
        self.bot
            .home
            .write("agent.reply", &format!("MEDIA:{}", path.display()));
        let before = self.bot.api.messages_in(self.chat, None).len();
        self.bot.api.says(self.chat, None, &ADA, "send it");
        until("an answer", || {
            let all = self.bot.api.messages_in(self.chat, None);
            (all.len() > before).then_some(())
        });
        let all = self.bot.api.messages_in(self.chat, None);
        assert!(all.iter().all(|m| m.file.is_none()), "{path:?} was sent");
        all[before].text.clone()
    }

    fn refused(&self, path: &Path) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let words = format!("({name} is not sent: it is not there, or may not be sent.)");
        assert_eq!(self.refusal(path), words);
    }

    /// Copies that wait in the home.
    fn copies(&self) -> usize {
        let copies = std::fs::read_dir(self.bot.home.path().join("outgoing"));
        copies.map_or(0, Iterator::count)
    }
}

#[test]
fn a_file_that_is_swapped_for_a_link_before_it_is_sent_leaves_as_it_was() {
    let attack = Attack::begin("");
    let key = attack.file("keys/id", KEY);
    let report = attack.file("tmp/report.txt", "a report");
    let reply = format!("Here.\nMEDIA:{}", report.display());
    attack.bot.home.write("agent.reply", &reply);
    let api = &attack.bot.api;
    api.says(attack.chat, None, &ADA, "the report, please");
    // The first call is the sign that it types; the reply is held, and with it the file behind it.
    let held = api.hold(0, Side::Before);
    until("the reply is kept", || {
        let rows: i64 = attack.bot.look("SELECT count(*) FROM hermesd_deliveries");
        (rows == 2).then_some(())
    });
    let waiting = attack.copies();
    std::fs::remove_file(&report).unwrap();
    symlink(&key, &report).unwrap();
    held.let_go();
    let sent = api.until_message(attack.chat, None, |m| m.file.is_some());
    let sent = sent.file.expect("a file");
    assert!(sent.is("document", "report.txt", b"a report"), "{sent:?}");
    assert_eq!(waiting, 1, "a copy waits");
    until("the copy is removed", || {
        (attack.copies() == 0).then_some(())
    });
}

#[test]
fn links_and_second_names_of_a_key_are_refused_like_what_is_not_there() {
    let attack = Attack::begin("");
    let key = attack.file("keys/notes.txt", KEY);
    let hard = attack.outside.path().join("tmp/hard.txt");
    std::fs::hard_link(&key, &hard).unwrap();
    attack.refused(&hard);
    for name in ["state.db.bak", "id_ecdsa", "passwords.kdbx", ".env.local"] {
        attack.refused(&attack.file(&format!("tmp/{name}"), KEY));
    }
    let link = attack.outside.path().join("tmp/link.txt");
    symlink(&key, &link).unwrap();
    attack.refused(&link);
    attack.refused(&key);
    attack.refused(&attack.outside.path().join("tmp/missing.txt"));
}

#[test]
fn a_session_at_the_root_or_at_home_makes_nothing_sendable() {
    let attack = Attack::begin("");
    let notes = attack.file("private/notes.txt", KEY);
    attack.bot.api.says(attack.chat, None, &ADA, "hello");
    let api = &attack.bot.api;
    api.until_message(attack.chat, None, |m| m.text == "ready");
    let home = attack.bot.home.path();
    let at = |cwd: &Path| {
        let set = "UPDATE sessions SET cwd = ?1";
        let changed = attack.bot.home.sqlite().execute(set, [cwd.to_str()]);
        assert_eq!(changed, Ok(1));
    };
    at(Path::new("/"));
    attack.refused(&notes);
    attack.bot.home.write("diary.txt", KEY);
    attack.bot.home.write("work/plan.txt", "a plan");
    at(home);
    attack.refused(&home.join("diary.txt"));
    // A directory of the home that is worked in is one to send from.
    at(&home.join("work"));
    let plan = home.join("work/plan.txt").display().to_string();
    let home = &attack.bot.home;
    home.write("agent.reply", &format!("MEDIA:{plan}"));
    api.says(attack.chat, None, &ADA, "the plan");
    api.until_message(attack.chat, None, |m| m.file.is_some());
}

#[tokio::test]
async fn a_handoffs_reply_brings_its_file_and_leaves_no_copy() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    seed_session(&bot.home).await;
    bot.home.write("work/plan.txt", "a plan");
    let work = bot.home.path().join("work").display().to_string();
    let set = "UPDATE sessions SET cwd = ?1";
    bot.home.sqlite().execute(set, [&work]).unwrap();
    let (command, _) = program(&bot.home, "agent", "cat \"$0.reply\"");
    let reply = format!("I am here. MEDIA:{work}/plan.txt");
    bot.home.write("agent.reply", &reply);
    let _daemon = bot.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &command),
    ]);
    let handed = bot.hand_off();
    assert_eq!(handed.code, 0, "{handed:?}");
    let sent = bot.api.until_message(bot.chat, None, |m| m.file.is_some());
    assert_eq!(sent.file.unwrap().bytes.as_ref(), b"a plan");
    let copies = std::fs::read_dir(bot.home.path().join("outgoing")).unwrap();
    assert_eq!(copies.count(), 0);
}

#[test]
fn a_file_that_one_person_sent_does_not_go_to_another() {
    let attack = Attack::begin(&format!("TELEGRAM_GROUP_ALLOWED_USERS={}\n", BEN.id));
    let api = &attack.bot.api;
    let group = api.group("a group");
    api.writes(attack.chat, &ADA)
        .text("for you alone")
        .file("document", "diary.txt", b"dear diary")
        .send();
    let out = attack.bot.home.path().join("agent.out");
    let path = until("the agent gets it", || {
        let told = told(&out);
        Some(told.first()?["attachments"][0]["path"].as_str()?.to_owned())
    });
    let mode = Path::new(&path).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    api.until_message(attack.chat, None, |m| m.text == "ready");
    attack
        .bot
        .home
        .write("agent.reply", &format!("MEDIA:{path}"));
    let ask = format!("@{} the diary", crate::support::telegram::BOT_NAME);
    api.says(group, None, &BEN, &ask);
    let answer = until("an answer", || {
        api.messages_in(group, None).first().cloned()
    });
    assert!(answer.file.is_none(), "{answer:?}");
    assert!(
        answer
            .text
            .ends_with("it is not there, or may not be sent.)"),
        "{answer:?}"
    );
    api.says(attack.chat, None, &ADA, "the diary");
    let sent = api.until_message(attack.chat, None, |m| m.file.is_some());
    assert_eq!(sent.file.unwrap().bytes.as_ref(), b"dear diary");
}

#[test]
fn copies_that_a_killed_daemon_left_are_removed_at_the_next_start() {
    let (bot, _) = Bot::of_ada("");
    bot.home.write("outgoing/abc/left.txt", "left");
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(5);
    let left = bot.home.path().join("outgoing/abc");
    std::fs::File::open(&left)
        .unwrap()
        .set_modified(past)
        .unwrap();
    let _daemon = bot.start();
    until("it is removed", || (!left.exists()).then_some(()));
}
