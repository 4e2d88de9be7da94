//! Homes of every kind, and what refuses a handoff: the outcome names what to grant.

use crate::support::discord::permissions::{
    CREATE_PRIVATE_THREADS, CREATE_PUBLIC_THREADS, MANAGE_THREADS, SEND_MESSAGES_IN_THREADS,
    VIEW_CHANNEL,
};
use crate::support::discord::{ADA, BEN, BOT_ID, ChannelKind, Id, Whom};
use crate::support::discord_bot::DiscordBot;
use crate::support::fake::ScriptedFault;
use crate::support::{Daemon, picture, program, seed_session, until};

/// A bot whose own permissions lack these in the home channel.
pub async fn without(bot: DiscordBot, denied: u64) -> DiscordBot {
    seed_session(&bot.home).await;
    let whom = Whom::Member(BOT_ID);
    bot.api.overwrites(bot.channel, whom, 0, denied);
    bot
}

/// The handoff fails for this reason, and all is as it was.
pub fn assert_refused(bot: &DiscordBot, reasons: &[&str]) {
    let before = picture(&bot.home);
    let handed = bot.hand_off();
    assert_eq!(handed.code, 4, "{handed:?}");
    let shown = bot.handoff();
    assert_eq!(shown["state"], "failed", "{shown}");
    for reason in reasons {
        assert!(handed.stderr.contains(reason), "{reason}: {handed:?}");
        let error = shown["error"].as_str().expect("an error");
        assert!(error.contains(reason), "{reason}: {shown}");
    }
    assert_eq!(picture(&bot.home), before, "nothing is bound");
}

/// The handoff goes to the home itself for this reason, with nothing but the reply there.
fn assert_home_itself(bot: &DiscordBot, reasons: &[&str]) {
    let handed = bot.hand_off();
    assert_eq!(handed.code, 0, "{handed:?}");
    let shown = bot.handoff();
    assert_eq!(shown["thread"], serde_json::Value::Null, "{shown}");
    for reason in reasons {
        let why = shown["no_thread"].as_str().expect("a reason");
        assert!(why.contains(reason), "{reason}: {shown}");
        assert!(handed.stdout.contains(reason), "{reason}: {handed:?}");
    }
    let said = bot.texts(bot.channel);
    assert_eq!(said.len(), 1, "nothing but the reply: {said:?}");
    assert!(bot.api.threads(bot.channel).is_empty());
}

fn kind(bot: &DiscordBot, channel: Id) -> ChannelKind {
    bot.api.world().channel(channel).kind
}

#[tokio::test]
async fn an_announcement_channel_gets_a_thread_of_its_own_kind() {
    let bot = DiscordBot::in_channel(ChannelKind::Announcement);
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    assert_eq!(kind(&bot, thread), ChannelKind::AnnouncementThread);
    bot.goes_on(thread, "and now?");
    assert_eq!(bot.texts(bot.channel), [""; 0], "nothing in the channel");
}

#[tokio::test]
async fn a_media_channel_gets_a_post() {
    let bot = DiscordBot::in_channel(ChannelKind::Media);
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let post = bot.hand_off_to_thread();
    assert_eq!(bot.texts(post).len(), 2, "the title, and the reply");
    bot.goes_on(post, "and now?");
}

#[tokio::test]
async fn a_voice_channel_is_used_itself() {
    let bot = DiscordBot::in_channel(ChannelKind::Voice);
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    assert_home_itself(&bot, &["has no threads"]);
    bot.goes_on(bot.channel, &DiscordBot::called("and now?"));
}

#[tokio::test]
async fn a_thread_as_home_is_used_itself() {
    let bot = DiscordBot::at_home(|api, guild| {
        let channel = api.text_channel(guild, "work");
        api.opens_thread(channel, &ADA, "plans")
    });
    seed_session(&bot.home).await;
    let around = bot.api.parent(bot.channel);
    let _daemon = bot.start();
    assert_home_itself(&bot, &["is a thread itself"]);
    bot.goes_on(bot.channel, "and now?");
    assert_eq!(bot.texts(around), [""; 0]);
    assert_eq!(bot.api.threads(around).len(), 1);
}

#[tokio::test]
async fn a_private_chat_as_home_is_used_itself() {
    let bot = DiscordBot::at_home(|api, _| api.direct(&ADA));
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    assert_home_itself(&bot, &["a private chat on Discord has no threads"]);
    bot.goes_on(bot.channel, "and now?");
}

#[tokio::test]
async fn without_any_thread_the_refusal_and_its_remedy_are_recorded() {
    let threads = CREATE_PUBLIC_THREADS | CREATE_PRIVATE_THREADS;
    let bot = without(DiscordBot::in_text_channel(), threads).await;
    let _daemon = bot.start();
    assert_home_itself(&bot, &["50013", "missing permission"]);
    bot.goes_on(bot.channel, &DiscordBot::called("and now?"));
}

#[tokio::test]
async fn a_full_server_is_named_and_its_channel_used() {
    let bot = without(DiscordBot::in_text_channel(), 0).await;
    bot.api.change(|world| world.most_active_threads = 0);
    let _daemon = bot.start();
    assert_home_itself(&bot, &["160006", "archive some of them"]);
}

#[tokio::test]
async fn a_channel_that_the_bot_cannot_see_refuses_the_handoff() {
    let bot = without(DiscordBot::in_text_channel(), VIEW_CHANNEL).await;
    let _daemon = bot.start();
    assert_refused(&bot, &["50001", "View Channel"]);
}

#[tokio::test]
async fn a_channel_that_does_not_exist_refuses_the_handoff() {
    let bot = DiscordBot::at_home(|_, _| 1_200_000_000_000_000_001);
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    assert_refused(&bot, &["10003", "1200000000000000001"]);
}

#[tokio::test]
async fn a_thread_in_which_the_bot_cannot_write_refuses_the_handoff() {
    let denied = SEND_MESSAGES_IN_THREADS;
    let bot = without(DiscordBot::in_text_channel(), denied).await;
    let _daemon = bot.start();
    assert_refused(&bot, &["50013", "missing permission"]);
}

#[tokio::test]
async fn a_person_who_accepts_no_messages_refuses_the_handoff() {
    let bot = DiscordBot::at_home(|_, _| ADA.id);
    seed_session(&bot.home).await;
    bot.api.closes_direct(&ADA);
    let _daemon = bot.start();
    assert_refused(&bot, &["50007", "accepts no private messages"]);
}

const OPEN: &str = "POST /channels/{}/threads";
const FORBIDDEN: ScriptedFault = ScriptedFault::Refuse(403, "50013 Missing Permissions");

#[tokio::test]
async fn where_a_thread_without_a_message_is_refused_one_begins_with_a_message() {
    let bot = without(DiscordBot::in_text_channel(), 0).await;
    bot.api.then(OPEN, FORBIDDEN);
    let _daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    let shown = bot.handoff();
    assert_eq!(shown["thread"], thread.to_string(), "{shown}");
    let seeds = bot.api.messages_in(bot.channel);
    assert_eq!((seeds.len(), seeds[0].id), (1, thread), "{seeds:?}");
    bot.goes_on(thread, "and now?");
}

#[tokio::test]
async fn where_both_are_refused_a_private_thread_has_its_owner_in_it() {
    let bot = without(DiscordBot::in_text_channel(), CREATE_PUBLIC_THREADS).await;
    let _daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    let threads = bot.api.threads(bot.channel);
    assert!(threads[0].is_private, "{threads:?}");
    assert_eq!(bot.texts(bot.channel), [""; 0], "no stray message");
    bot.goes_on(thread, "and now?");
}

#[tokio::test]
async fn doctor_knows_what_becomes_of_each_kind_of_home() {
    for (kind, words) in [
        (ChannelKind::Text, "a channel with threads"),
        (ChannelKind::Announcement, "a channel with threads"),
        (ChannelKind::Forum, "a forum"),
        (ChannelKind::Media, "a media channel"),
        (ChannelKind::Voice, "a channel without threads"),
    ] {
        let bot = DiscordBot::in_channel(kind);
        let _daemon = bot.start();
        let shown = bot.home.hermesctl(&["doctor"]);
        assert!(shown.stdout.contains(words), "{kind:?}: {shown:?}");
    }
}

/// A bot whose agent fails when the file `go` is there.
pub async fn failing(permissions: u64) -> (DiscordBot, Daemon) {
    let bot = without(DiscordBot::in_text_channel(), 0).await;
    bot.api.permits_bot(bot.guild(), permissions);
    let go = bot.home.path().join("go");
    let waits = format!(
        "while [ ! -e {} ]; do sleep 0.01; done; exit 1",
        go.display()
    );
    let (script, _) = program(&bot.home, "broken", &waits);
    let daemon = bot.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &script),
    ]);
    (bot, daemon)
}

/// Asks for a handoff that fails, with what happens in its thread meanwhile.
pub fn fails(bot: &DiscordBot, meanwhile: impl FnOnce(Id)) {
    let words = [
        "handoff",
        "discord",
        "--session",
        crate::support::SESSION,
        "--no-wait",
    ];
    assert_eq!(bot.home.hermesctl(&words).code, 0);
    let thread = until("a thread", || bot.api.threads(bot.channel).pop());
    meanwhile(thread.id);
    bot.home.write("go", "");
    until("the handoff fails", || {
        let state: String = bot.look("SELECT state FROM hermesd_handoffs");
        (state == "failed").then_some(())
    });
}

#[tokio::test]
async fn the_empty_thread_of_a_failed_handoff_is_deleted_where_that_is_allowed() {
    let (bot, _daemon) = failing(MANAGE_THREADS).await;
    fails(&bot, |_| ());
    until("the thread is gone", || {
        bot.api.threads(bot.channel).is_empty().then_some(())
    });
    let (bot, _daemon) = failing(0).await;
    fails(&bot, |_| ());
    let thread = bot.api.threads(bot.channel)[0].id;
    bot.answered(thread, "failed");
}

#[tokio::test]
async fn a_thread_in_which_anyone_has_written_stays() {
    let (bot, _daemon) = failing(MANAGE_THREADS).await;
    fails(&bot, |thread| {
        bot.api.says(thread, &BEN, "what is this?");
        // Events are handled in order, so Ben's is done once this one is answered.
        let private = bot.api.direct(&ADA);
        bot.api.says(private, &ADA, "/status");
        bot.api.until_message(private, |_| true);
    });
    let thread = until("a note", || bot.api.threads(bot.channel).pop()).id;
    bot.answered(thread, "failed");
    let deleted = bot.api.calls_of("DELETE /channels/{}");
    assert!(deleted.is_empty(), "{deleted:?}");
}
