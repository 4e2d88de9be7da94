//! `hermesctl setup discord` in a terminal: from a fresh bot to the first handoff.

use super::setup::{BASE_URL, INVITED, WRONG, fresh};
use crate::support::discord::permissions::{
    CREATE_PUBLIC_THREADS, EVERYONE, MANAGE_THREADS, VIEW_CHANNEL,
};
use crate::support::discord::{ADA, BEN, BOT_ID, ChannelKind, TOKEN, Whom};
use crate::support::pty::Terminal;
use crate::support::{SESSION, seed_session, until};

const CHOOSE: &str = "The number of the home channel, or Enter to look again:";
const TRIED: &str = "A test thread was opened and deleted.";

#[tokio::test]
async fn a_person_is_led_from_the_token_to_the_home_channel() {
    let fresh = fresh();
    seed_session(&fresh.home).await;
    let terminal = fresh.terminal(&[]);
    terminal.shows("switch the Message Content Intent on and copy the token");
    assert!(!terminal.screen().contains("BotFather"));
    terminal.shows("The token (it is not shown):");
    terminal.press(format!("{WRONG}\r"));
    terminal.shows("the token was not accepted");
    terminal.shows("Another token, or Enter to check the same one again:");
    assert_eq!(fresh.written(), "");
    terminal.press(format!("{TOKEN}\r"));
    terminal.shows("It is the token of @hermes-test.");
    terminal.shows("@hermes-test is on Workshop.");
    terminal.shows(&fresh.link());
    terminal.shows(&format!("Are you Ada (id {})? [Y/n]", ADA.id));
    assert!(fresh.written().contains("token = "), "the step is saved");
    terminal.press("y\r");
    terminal.shows(CHOOSE);
    terminal.press("7\r");
    terminal.shows("Type a number from 1 to 2.");
    terminal.press("1\r");
    terminal.shows(TRIED);
    terminal.shows("work is the home channel.");
    terminal.shows("Done.");
    let screen = terminal.screen();
    assert!(!screen.contains("Gfake0"), "the token was shown");
    assert!(!screen.contains('█'), "no invitation is needed");
    assert_eq!(fresh.trials(), 1);
    let file = fresh.written();
    for line in [
        format!("owner = \"{}\"\n", ADA.id),
        format!("allowed_users = [\"{}\"]\n", ADA.id),
        format!("home_channel = \"{}\"\n", fresh.channel),
        "home_channel_name = \"work\"\n".to_owned(),
    ] {
        assert!(file.contains(&line), "{file}");
    }
    let _daemon = fresh.home.start_with(&[(BASE_URL, &fresh.api.url())]);
    fresh.api.until_listening();
    let handed = fresh
        .home
        .hermesctl(&["handoff", "discord", "--session", SESSION]);
    assert_eq!(handed.code, 0, "{handed:?}");
}

#[test]
fn who_has_no_right_token_is_asked_a_few_times() {
    let fresh = fresh();
    let mut terminal = fresh.terminal(&[]);
    terminal.shows("The token (it is not shown):");
    for rejected in 1..=4 {
        terminal.press(format!("{WRONG}\r"));
        terminal.shows_times("the token was not accepted", rejected);
    }
    assert_eq!(terminal.end(), 4);
    assert!(terminal.is_as_found());
    assert_eq!(fresh.written(), "");
}

#[test]
fn a_bot_on_no_server_is_waited_for() {
    let fresh = fresh();
    fresh.api.kicks_bot(fresh.guild);
    let terminal = fresh.terminal(&["--token-file", &fresh.token]);
    terminal.shows(&fresh.link());
    terminal.shows("Waiting until it is there");
    assert!(terminal.screen().contains('█'), "a QR code");
    let looks = fresh.api.calls_of("GET /users/@me/guilds").len();
    fresh.api.until_calls("GET /users/@me/guilds", looks + 1);
    let screen = terminal.screen();
    let asked = screen.split("permissions=").nth(1).unwrap();
    let asked: String = asked.chars().take_while(char::is_ascii_digit).collect();
    fresh.api.invites_bot(fresh.guild, asked.parse().unwrap());
    terminal.shows("@hermes-test is on Workshop now.");
    terminal.shows("Are you Ada");
    terminal.press("\r");
    terminal.shows(CHOOSE);
    terminal.press("1\r");
    terminal.shows(TRIED);
    terminal.shows("Done.");
    assert_eq!(fresh.trials(), 1);
}

#[test]
fn who_stops_waiting_keeps_what_is_done() {
    let fresh = fresh();
    fresh.api.kicks_bot(fresh.guild);
    let mut terminal = fresh.terminal(&["--token-file", &fresh.token]);
    terminal.shows("Waiting until it is there");
    terminal.press([3]);
    assert_eq!(terminal.end(), 4);
    assert!(terminal.screen().contains("run it again to continue"));
    assert!(fresh.written().contains("token = "));
    let terminal = fresh.terminal(&[]);
    terminal.shows("Another token, or Enter to keep the present one:");
}

#[test]
fn a_terminal_without_room_or_with_no_abilities_gets_the_link_alone() {
    let fresh = fresh();
    fresh.api.kicks_bot(fresh.guild);
    let arguments = ["setup", "discord", "--token-file", &fresh.token];
    let narrow = Terminal::of(fresh.command(&arguments), 40, 60);
    narrow.shows("Waiting until it is there");
    assert!(!narrow.screen().contains('█'), "{}", narrow.screen());
    let mut dumb = fresh.home.command("env");
    dumb.env(BASE_URL, fresh.api.url());
    dumb.args(["TERM=dumb", env!("CARGO_BIN_EXE_hermesctl")]);
    dumb.args(arguments);
    let dumb = Terminal::of(dumb, 200, 60);
    dumb.shows("Waiting until it is there");
    dumb.shows(&fresh.link());
    assert!(!dumb.screen().contains('█'), "{}", dumb.screen());
}

#[test]
fn an_output_that_is_no_terminal_gets_the_link_alone() {
    let fresh = fresh();
    fresh.api.kicks_bot(fresh.guild);
    let mut shell = fresh.home.command("sh");
    shell.env(BASE_URL, fresh.api.url());
    let words = "exec \"$0\" setup discord --token-file token > shown";
    shell.args(["-c", words, env!("CARGO_BIN_EXE_hermesctl")]);
    shell.current_dir(fresh.home.path());
    let _terminal = Terminal::of(shell, 200, 60);
    let shown = until("the invitation", || {
        let shown = std::fs::read_to_string(fresh.home.path().join("shown")).ok()?;
        shown.contains("Waiting until it is there").then_some(shown)
    });
    assert!(shown.contains(&fresh.link()), "{shown}");
    assert!(!shown.contains('█'), "{shown}");
}

#[test]
fn the_list_has_the_order_of_discord_and_says_what_is_missing() {
    let fresh = fresh();
    let (api, guild) = (&fresh.api, fresh.guild);
    let lounge = api.guild("Lounge");
    api.permits_bot(lounge, INVITED);
    api.text_channel(lounge, "sofa");
    let later = api.channel(guild, ChannelKind::Category, "Later");
    let sooner = api.channel(guild, ChannelKind::Category, "Sooner");
    api.arranges(later, None, 2);
    api.arranges(sooner, None, 1);
    let plans = api.channel(guild, ChannelKind::Forum, "plans");
    api.arranges(plans, Some(later), 0);
    let news = api.channel(guild, ChannelKind::Announcement, "news");
    api.arranges(news, Some(sooner), 8);
    let ops = api.text_channel(guild, "ops");
    api.arranges(ops, Some(sooner), 7);
    let whom = Whom::Member(BOT_ID);
    api.overwrites(ops, whom, 0, CREATE_PUBLIC_THREADS | MANAGE_THREADS);
    api.channel(guild, ChannelKind::Voice, "talk");
    let hidden = api.text_channel(guild, "hidden");
    api.overwrites(hidden, Whom::Member(BOT_ID), 0, VIEW_CHANNEL);

    let terminal = fresh.terminal_of_ada();
    terminal.shows("The number of the server, or Enter to look again:");
    let screen = terminal.screen();
    assert!(screen.contains("1  Lounge") && screen.contains("2  Workshop"));
    terminal.press("2\r");
    terminal.shows(CHOOSE);
    let screen = terminal.screen();
    let rows: Vec<&str> = screen.lines().map(str::trim).collect();
    let header = rows.iter().position(|row| row.starts_with("CHAT")).unwrap();
    let list: Vec<Vec<&str>> = rows[header + 1..header + 6]
        .iter()
        .map(|row| {
            row.split("  ")
                .map(str::trim)
                .filter(|s| !s.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(
        list,
        [
            vec!["1", "work", "Workshop", "text channel"],
            vec![
                "2",
                "ops",
                "Workshop",
                "text channel",
                "missing: Create Public Threads"
            ],
            vec!["3", "news", "Workshop", "announcements"],
            vec!["4", "plans", "Workshop", "forum"],
            vec!["5", "Ada", "private messages with you"],
        ]
    );
    assert!(rows[header + 6].starts_with(CHOOSE), "{screen}");

    terminal.press("2\r");
    terminal.shows("the bot lacks permissions in ops: Create Public Threads;");
    terminal.shows_times("The number of the server", 2);
    terminal.press("2\r");
    terminal.shows_times(CHOOSE, 2);
    api.overwrites(ops, whom, 0, 0);
    terminal.press("2\r");
    terminal.shows(TRIED);
    terminal.shows("Done.");
    assert_eq!(fresh.trials(), 1);
    assert!(
        fresh
            .written()
            .contains(&format!("home_channel = \"{ops}\""))
    );
}

#[test]
fn a_refusal_of_the_thread_is_named_and_another_channel_chosen() {
    let fresh = fresh();
    let forum = fresh.api.channel(fresh.guild, ChannelKind::Forum, "plans");
    fresh.api.arranges(forum, None, 5);
    fresh.api.change(|world| world.most_active_threads = 0);
    let terminal = fresh.terminal_of_ada();
    terminal.shows(CHOOSE);
    terminal.press("1\r");
    terminal.shows("160006");
    terminal.shows("the server has its maximum number of active threads: archive some of them");
    terminal.shows_times(CHOOSE, 2);
    fresh.api.change(|world| world.most_active_threads = 10);
    terminal.press("2\r");
    terminal.shows(TRIED);
    terminal.shows("plans is the home channel.");
    terminal.shows("Done.");
    assert!(fresh.api.messages_in(fresh.channel).is_empty());
}

#[test]
fn a_bot_that_may_not_delete_threads_archives_the_test() {
    let fresh = fresh();
    fresh.api.permits_bot(fresh.guild, EVERYONE);
    let terminal = fresh.terminal_of_ada();
    terminal.shows(CHOOSE);
    terminal.press("1\r");
    terminal
        .shows("A test thread was opened, but not deleted: without the permission Manage Threads");
    terminal.shows("Done.");
    assert!(fresh.api.threads(fresh.channel).is_empty(), "it is active");
}

#[tokio::test]
async fn private_messages_with_the_owner_are_a_home() {
    let fresh = fresh();
    seed_session(&fresh.home).await;
    let terminal = fresh.terminal_of_ada();
    terminal.shows(CHOOSE);
    terminal.press("2\r");
    terminal.shows("The chat is open. Handoffs go to the chat itself");
    terminal.shows("Done.");
    assert_eq!(fresh.trials(), 0);
    let file = fresh.written();
    assert!(
        file.contains(&format!("home_channel = \"{}\"", ADA.id)),
        "{file}"
    );
    let _daemon = fresh.home.start_with(&[(BASE_URL, &fresh.api.url())]);
    fresh.api.until_listening();
    let handed = fresh
        .home
        .hermesctl(&["handoff", "discord", "--session", SESSION]);
    assert_eq!(handed.code, 0, "{handed:?}");
    let chat = fresh.api.direct(&ADA);
    fresh.api.until_message(chat, |_| true);
}

#[test]
fn the_owner_of_a_team_is_offered_and_somebody_else_gives_their_id() {
    let fresh = fresh();
    fresh.api.change(|world| world.has_team = true);
    let terminal = fresh.terminal(&["--token-file", &fresh.token]);
    terminal.shows(&format!("Are you Ada (id {})? [Y/n]", ADA.id));
    terminal.press("n\r");
    terminal.shows("Copy User ID");
    terminal.press("44\r");
    terminal.shows("44 is not the id of a person");
    terminal.shows_times("Copy User ID", 2);
    terminal.press(format!("{}\r", BEN.id));
    terminal.shows(&format!("Are you Ben (id {})? [Y/n]", BEN.id));
    terminal.press("\r");
    terminal.shows(CHOOSE);
    terminal.press("1\r");
    terminal.shows("Done.");
    let file = fresh.written();
    assert!(file.contains(&format!("owner = \"{}\"", BEN.id)), "{file}");
    assert!(!file.contains(&ADA.id.to_string()), "{file}");
}

#[test]
fn an_intent_that_is_off_is_waited_for_and_can_be_skipped() {
    let fresh = fresh();
    fresh.api.portal(0);
    let terminal = fresh.terminal(&["--token-file", &fresh.token]);
    terminal.shows("the Message Content Intent is off");
    terminal.shows("Privileged Gateway Intents");
    terminal.press("\r");
    terminal.shows_times("the Message Content Intent is off", 2);
    terminal.press("skip\r");
    terminal.shows("Are you Ada");
    drop(terminal);
    let terminal = fresh.terminal(&["--token-file", &fresh.token]);
    terminal.shows("the Message Content Intent is off");
    fresh.api.portal(u64::MAX);
    terminal.press("\r");
    terminal.shows("Are you Ada");
    assert_eq!(
        terminal
            .screen()
            .matches("Message Content Intent is")
            .count(),
        1
    );
}

#[tokio::test]
async fn a_daemon_that_runs_connects_with_the_new_settings() {
    let fresh = fresh();
    seed_session(&fresh.home).await;
    let _daemon = fresh.home.start_with(&[(BASE_URL, &fresh.api.url())]);
    let terminal = fresh.terminal_of_ada();
    terminal.shows(CHOOSE);
    terminal.press("1\r");
    terminal.shows("Done.");
    let handed = fresh
        .home
        .hermesctl(&["handoff", "discord", "--session", SESSION]);
    assert_eq!(handed.code, 0, "{handed:?}");
    assert_eq!(fresh.api.threads(fresh.channel).len(), 1);
}
