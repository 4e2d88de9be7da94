//! What people write over Telegram, in all its forms: heard once, in order, with whatever came along.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, BEN, BotMessage, Rights, ScriptedFault};
use crate::support::until;

/// The files that the home has got, with their modes.
fn saved(bot: &Bot) -> Vec<(PathBuf, u32)> {
    let chats = std::fs::read_dir(bot.home.path().join("files/telegram")).unwrap();
    let mut found: Vec<_> = chats
        .flat_map(|chat| std::fs::read_dir(chat.unwrap().path()).unwrap())
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let mode = entry.metadata().unwrap().permissions().mode();
            (entry.path(), mode & 0o777)
        })
        .collect();
    found.sort();
    found
}

/// The answer to something that cannot be named word by word.
fn answer(bot: &Bot, chat: i64, words: &str) -> BotMessage {
    bot.api
        .until_message(chat, None, |m| m.text.contains(words))
}

/// Waits until the daemon knows that all it wanted to send is sent.
fn until_sent(bot: &Bot) {
    let open = "SELECT COUNT(*) FROM hermesd_deliveries WHERE state IN ('pending', 'sending')";
    let connection = bot.home.sqlite();
    until("all is sent", || {
        let open: i64 = connection.query_row(open, [], |row| row.get(0)).unwrap();
        (open == 0).then_some(())
    });
}

#[test]
fn an_update_that_comes_again_is_answered_once() {
    let (bot, chat) = Bot::of_ada("");
    let daemon = bot.start();
    bot.asks(chat, None, "one");
    bot.api.repeat_last();
    bot.api.until_polled();
    // The next poll would confirm what it brings, and never comes.
    bot.api.then("getUpdates", ScriptedFault::Hang);
    bot.asks(chat, None, "two");
    assert_eq!(bot.api.unconfirmed(), 1);
    let cursor = "SELECT value FROM hermesd_cursors";
    let place = || -> Option<String> {
        let connection = bot.home.sqlite();
        connection.query_row(cursor, [], |row| row.get(0)).ok()
    };
    let kept = place().expect("a place");
    until_sent(&bot);
    daemon.kill();
    bot.api.until_quiet();
    let polls = bot.api.calls_of("getUpdates").len();

    // The place that was kept is where the next run goes on.
    let daemon = bot.start();
    let first = &bot.api.calls_of("getUpdates")[polls];
    assert_eq!(first.params["offset"].to_string(), kept);
    bot.api.then("getUpdates", ScriptedFault::Hang);
    bot.asks(chat, None, "three");
    until_sent(&bot);
    daemon.kill();
    bot.api.until_quiet();
    // As if it had died a moment earlier: the update comes once more.
    bot.home
        .sqlite()
        .execute("DELETE FROM hermesd_cursors", [])
        .unwrap();
    assert_eq!(bot.api.unconfirmed(), 1);
    let _daemon = bot.start();
    bot.asks(chat, None, "four");
    assert_eq!(bot.texts(chat).len(), 4, "{:?}", bot.texts(chat));
}

#[test]
fn what_was_said_while_nobody_was_there_is_answered_in_order_unless_it_is_too_old() {
    let (bot, chat) = Bot::of_ada("");
    let daemon = bot.start();
    bot.asks(chat, None, "before");
    assert!(daemon.stop().success());
    bot.api.until_quiet();
    let ben = bot.api.private(&BEN);
    let allowed = [ADA.id, BEN.id].map(|id| id.to_string()).join(",");
    for text in ["one", "two", "three"] {
        bot.api.says(chat, None, &ADA, text);
    }
    let long_ago = Duration::from_secs(13 * 3600);
    for text in ["old", "older"] {
        bot.api.writes(ben, &BEN).ago(long_ago).text(text).send();
    }
    let _daemon = bot.start_with(&[("HERMESD_PLATFORMS_TELEGRAM_ALLOWED_USERS", &allowed)]);
    bot.answered(chat, None, "three");
    let texts = bot.texts(chat);
    let begin = ["before", "one", "two", "three"].map(|word| format!("You said: {word}\n"));
    assert_eq!(texts.len(), 4, "{texts:?}");
    for (text, begin) in texts.iter().zip(&begin) {
        assert!(text.starts_with(begin), "{texts:?}");
    }
    bot.api.says(ben, None, &BEN, "new");
    bot.answered(ben, None, "new");
    let texts = bot.texts(ben);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("Send them again"), "{texts:?}");
}

#[test]
fn a_stop_lets_a_message_that_is_on_its_way_arrive() {
    let (bot, chat) = Bot::of_ada("");
    let mut daemon = bot.start();
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldAfter(gate.clone()));
    // It is in the chat, and the daemon has not heard of that.
    bot.asks(chat, None, "hello");
    daemon.signal(Signal::SIGTERM);
    until("it stops", || {
        daemon.log().contains("stopping").then_some(())
    });
    gate.add_permits(1);
    assert!(daemon.wait().success());
    let _daemon = bot.start();
    bot.asks(chat, None, "again");
    assert_eq!(bot.texts(chat).len(), 2, "{:?}", bot.texts(chat));
}

#[test]
fn a_changed_message_is_answered_in_its_last_wording_and_once() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldBefore(gate.clone()));
    let first = bot.api.says(chat, None, &ADA, "first");
    bot.api.until_calls("sendMessage", 1);
    let second = bot.api.says(chat, None, &ADA, "secnd");
    bot.api.until_polled();
    bot.api.edits(chat, second, "second");
    bot.api.edits(chat, first, "the very first");
    bot.api.until_polled();
    gate.add_permits(1);
    bot.answered(chat, None, "second");
    bot.api.edits(chat, second, "second, again");
    bot.api.until_polled();
    bot.asks(chat, None, "third");
    let texts = bot.texts(chat);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[0].starts_with("You said: first\n"), "{texts:?}");
}

#[test]
fn a_reply_carries_what_it_replies_to() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    let first = bot.asks(chat, None, "one two three");
    let reply = bot.api.writes(chat, &ADA).reply_to(first.id);
    reply.text("why?").send();
    answer(&bot, chat, "[In reply to: You said: one two three");
    let reply = bot.api.writes(chat, &ADA).reply_to(first.id);
    let quote = json!({"text": "two", "position": 14, "is_manual": true});
    reply.text("and why that?").with("quote", quote).send();
    bot.answered(chat, None, "[In reply to: two]\nand why that?");
    // A command stays one.
    let reply = bot.api.writes(chat, &ADA).reply_to(first.id);
    reply.text("/status").send();
    answer(&bot, chat, "Answered by echo");
}

#[test]
fn files_are_kept_under_safe_names_and_named_to_the_agent() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    let picture = bot.api.writes(chat, &ADA).text("what is this?");
    picture
        .file("photo", "photo.jpg", b"a large picture")
        .send();
    let seen = answer(&bot, chat, "what is this?");
    let path = saved(&bot)[0].0.display().to_string();
    assert!(seen.text.contains(&format!("[image: {path}]")), "{seen:?}");

    let document = bot.api.writes(chat, &ADA);
    document
        .file("document", "../../evil one\n.txt", b"words")
        .send();
    answer(&bot, chat, "[file \"");
    bot.api.then("file", ScriptedFault::DisconnectBefore);
    let voice = bot.api.writes(chat, &ADA);
    voice.file("voice", "", b"a voice").send();
    answer(&bot, chat, "[voice message: ");

    let files = saved(&bot);
    assert_eq!(files.len(), 3, "{files:?}");
    for ((path, mode), (ending, bytes)) in files.iter().zip([
        ("-0-photo.jpg", "a large picture"),
        ("-0-evil_one_.txt", "words"),
        ("-0-voice.ogg", "a voice"),
    ]) {
        assert_eq!(*mode, 0o600, "{path:?}");
        assert!(path.to_str().unwrap().ends_with(ending), "{path:?}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), bytes);
    }
    assert!(!bot.home.path().parent().unwrap().join("evil one").exists());
}

#[test]
fn a_file_that_cannot_be_had_is_said_to_be() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start_with(&[("HERMESD_CHATS_LARGEST_FILE", "1")]);
    let large = bot.api.writes(chat, &ADA).text("look");
    let large = large.file("document", "large.bin", b"x").sized(1_000_001);
    large.send();
    let told = answer(&bot, chat, "large.bin");
    assert!(told.text.contains("larger than 1 MB"), "{told:?}");
    assert!(told.text.contains("You said: look\n"), "{told:?}");
    assert!(bot.api.calls_of("getFile").is_empty());

    // It says that it is small, and is not.
    let liar = bot.api.writes(chat, &ADA);
    liar.file("document", "liar.bin", &vec![0; 1_000_001])
        .sized(10)
        .send();
    answer(&bot, chat, "liar.bin");

    let why = "Bad Request: wrong file_id or the file is temporarily unavailable";
    bot.api.then("getFile", ScriptedFault::Refuse(400, why));
    let lost = bot.api.writes(chat, &ADA);
    lost.file("document", "lost.txt", b"words").send();
    let told = answer(&bot, chat, "lost.txt");
    assert!(told.text.contains("temporarily unavailable"), "{told:?}");
    assert!(saved(&bot).is_empty(), "{:?}", saved(&bot));
}

#[test]
fn an_album_is_one_message_even_when_it_comes_in_pieces() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    let pictures: [&[u8]; 3] = [b"first", b"second", b"third"];
    bot.api.album(chat, None, &ADA, "our garden", &pictures);
    let seen = answer(&bot, chat, "our garden");
    assert_eq!(seen.text.matches("[image: ").count(), 3, "{seen:?}");

    // The first poll has only the first of it, and what somebody else said.
    let group = bot.api.group("Family");
    let gate = Arc::new(Semaphore::new(0));
    bot.api.until_polled();
    bot.api
        .then("getUpdates", ScriptedFault::HoldBefore(gate.clone()));
    let polls = bot.api.calls_of("getUpdates").len();
    let part = |n: u8| {
        let part = bot.api.writes(chat, &ADA).album("77");
        part.file("photo", "photo.jpg", &[n])
    };
    bot.api.at_once(|api| {
        part(1).text("our house").send();
        api.says(group, None, &ADA, "hello");
    });
    bot.api.until_calls("getUpdates", polls + 1);
    part(2).send();
    part(3).send();
    gate.add_permits(1);
    let seen = answer(&bot, chat, "our house");
    assert_eq!(seen.text.matches("[image: ").count(), 3, "{seen:?}");
    assert_eq!(bot.texts(chat).len(), 2, "{:?}", bot.texts(chat));
    bot.answered(group, None, "hello");
}

#[test]
fn what_is_neither_text_nor_file_is_told_in_words() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    let place = json!({"latitude": 51.5, "longitude": -0.25});
    let writes = || bot.api.writes(chat, &ADA);
    writes().with("location", place.clone()).send();
    bot.answered(chat, None, "[location: 51.5, -0.25]");
    let sticker = json!({
        "file_id": "s", "file_unique_id": "us", "file_size": 5, "type": "regular", "width": 512,
        "height": 512, "is_animated": false, "is_video": false, "emoji": "🐢", "set_name": "turtles",
    });
    writes().with("sticker", sticker).send();
    bot.answered(chat, None, "🐢");
    let venue = json!({"location": place, "title": "Mill", "address": "Water Lane 1"});
    let at = writes().with("location", place.clone());
    at.with("venue", venue).send();
    bot.answered(chat, None, "[location: Mill, Water Lane 1 (51.5, -0.25)]");
    writes()
        .with("dice", json!({"emoji": "🎲", "value": 3}))
        .send();
    bot.answered(chat, None, "[dice: 3]");
    let poll = json!({
        "id": "1", "question": "Tea?", "options": [{"text": "Yes", "voter_count": 0, "persistent_id": "1"}],
        "total_voter_count": 0, "is_closed": false, "is_anonymous": true, "type": "regular",
        "allows_multiple_answers": false,
    });
    writes().with("poll", poll).send();
    bot.answered(chat, None, "[a message of a kind that cannot be read here]");
}

#[test]
fn a_message_with_something_in_it_that_nobody_knows_yet_is_heard() {
    let (bot, chat) = Bot::of_ada("");
    let topics = bot.api.forum("Work", Rights::Member);
    let topic = Some(bot.api.opens_topic(topics, &ADA, "Plans"));
    let _daemon = bot.start();
    let entities = json!([{"type": "scent", "offset": 0, "length": 4}]);
    let rose = bot.api.writes(chat, &ADA).text("rose");
    rose.with("entities", entities.clone()).send();
    bot.answered(chat, None, "rose");
    let picture = bot.api.writes(topics, &ADA).thread(topic).text("tulip");
    let picture = picture.file("photo", "photo.jpg", b"a picture");
    picture.with("caption_entities", entities).send();
    let seen = bot
        .api
        .until_message(topics, topic, |m| m.text.contains("tulip"));
    assert!(seen.text.contains("[image: "), "{seen:?}");
}

#[test]
fn what_is_no_message_stops_nothing_and_is_not_answered() {
    let (bot, chat) = Bot::of_ada("");
    let group = bot.api.group("Family");
    let _daemon = bot.start();
    bot.api.brings("telepathy", json!({"thought": "forty-two"}));
    bot.api.brings("message", json!({"message_id": "nonsense"}));
    bot.api.brings("callback_query", json!({"id": "1"}));
    bot.api.joins(group, &ADA);
    bot.api.until_polled();
    // Nor does it matter which of two comes first.
    bot.api.backwards(|api| {
        api.says(chat, None, &ADA, "one");
        api.says(chat, None, &ADA, "two");
    });
    bot.answered(chat, None, "one");
    bot.answered(chat, None, "two");
    assert_eq!(bot.texts(chat).len(), 2, "{:?}", bot.texts(chat));
    assert!(bot.texts(group).is_empty(), "{:?}", bot.texts(group));
}
