//! The table of the settings that belong to no platform.

use std::time::Duration;

use super::spec::SettingSpec as S;

const SECOND: Duration = Duration::from_secs(1);
const TENTH: Duration = Duration::from_millis(100);
const MILLISECOND: Duration = Duration::from_millis(1);

#[rustfmt::skip]
pub(super) const GENERAL: &[S] = &[
    S::text("control.socket", "Path of the control socket."),
    S::text("control.group", "Unix group whose members may use the control socket, besides the owner and root. The socket must then be outside of the home."),
    S::integer("control.max_connections", 1, 4096, "The limit of simultaneous connections to the control socket.").default("64"),
    S::duration_or_zero("control.idle_timeout", TENTH, "hermesd closes an idle connection after this time. 0 leaves it open.").default("10m"),
    S::duration("control.write_timeout", TENTH, "hermesd drops a client that does not read its answers after this time.").default("10s"),

    S::integer("handoff.parallel", 1, 1024, "The limit of handoffs that run at the same time.").default("16"),
    S::duration("handoff.pickup_timeout", SECOND, "How long a handoff waits for a platform that is still connecting.").default("60s"),
    S::duration("handoff.lease", SECOND, "How long a claim stays valid after the last sign of life of its owner.").default("30s"),
    S::duration("handoff.orphan_grace", TENTH, "How long hermesd waits before it takes over a running handoff that it does not own.").default("2m"),
    S::duration_or_zero("handoff.poll_interval", TENTH, "How often hermesd reads the database if no event wakes the queue. 0 switches this off.").default("2s"),
    S::flag("handoff.watch", "Notices writes of other programs at once, by inotify on the home, the write-ahead log and the rollback journal.").default("true"),

    S::choice("agent.default", &["auto", "hermes", "openai", "acp", "command", "echo"], "The agent that answers. auto chooses hermes if Hermes is installed, else openai if an endpoint is set, else echo.").default("auto"),
    S::duration("agent.timeout", SECOND, "The longest time that one turn of an agent may take.").default("10m"),
    S::duration_or_zero("agent.first_token_timeout", SECOND, "How long an agent may take until its first sign of life. With 0, only agent.timeout counts.").default("2m"),
    S::duration_or_zero("agent.silence_timeout", SECOND, "How long an agent may be silent in the middle of an answer. With 0, only agent.timeout counts.").default("5m"),
    S::duration_or_zero("agent.turn_lease_timeout", SECOND, "How long a message waits while another program, such as Hermes, has a turn of the same conversation. hermesd refuses the message after that. 0 refuses it at once.").default("30m").hermes(&["agent.gateway_turn_lease_timeout"]),
    S::duration_or_never("agent.question_timeout", SECOND, "How long you may take to answer an agent's question. After that, the answer is no. With never, the question waits until you answer or stop it.").default("5m").hermes(&["approvals.timeout"]),
    S::duration_or_zero("agent.question_reminder", SECOND, "hermesd shows a question in a chat once more after this time. 0 sends no reminder.").default("1h"),
    S::duration_or_zero("agent.echo_pace", MILLISECOND, "The pause of the built-in echo agent between two words, to try out streaming. 0 answers at once.").default("0"),

    S::duration("agents.idle_timeout", SECOND, "hermesd ends an agent's process, and closes a session in Hermes, after this time without use.").default("15m"),
    S::text("agents.hermes.python", "The Python interpreter of a Hermes installation. Unset, hermesd uses the one of the program hermes on the path."),
    S::text("agents.openai.base_url", "The OpenAI-compatible endpoint, including its version: https://host/v1.").hermes(&["model.base_url"]),
    S::secret("agents.openai.api_key", "The key for that endpoint, if it needs one.").hermes(&["model.api_key"]),
    S::text("agents.openai.model", "The name of the model.").hermes(&["model.default", "model"]),
    S::integer("agents.openai.context", 1000, 100_000_000, "How many tokens the model accepts, history and reply together. hermesd leaves out the beginning of a longer history, and says so in the first such reply.").default("128000").hermes(&["model.context_length"]),
    S::text("agents.acp.command", "The program that speaks the Agent Client Protocol, with its arguments. No shell reads it."),
    S::text("agents.command.command", "The program that answers, with its arguments. No shell reads it."),

    S::flag("sessions.group_per_user", "In a group without threads, each person has their own session.").default("true").hermes(&["group_sessions_per_user", "gateway.group_sessions_per_user"]),
    S::flag("sessions.thread_per_user", "In a thread, each person has their own session.").default("false").hermes(&["thread_sessions_per_user", "gateway.thread_sessions_per_user"]),
    S::flag("sessions.multiplex_profiles", "Session keys contain the name of the profile, so sessions of named profiles stay apart.").default("false").env(&["GATEWAY_MULTIPLEX_PROFILES"]).hermes(&["multiplex_profiles", "gateway.multiplex_profiles"]),

    S::choice("store.journal_mode", &["wal", "delete"], "The journal mode of a state.db that hermesd creates. An existing file stays in its mode.").default("wal").hermes(&["database.journal_mode"]),
    S::flag("store.cjk_index", "Maintains Hermes' index for Chinese, Japanese and Korean, if the state.db has one.").default("true").env(&["HERMES_CJK_FTS"]).hermes(&["sessions.cjk_fts"]),
    S::text("store.cjk_library", "The library that this index needs. By default lib/libfts5_cjk.so in the home.").env(&["HERMES_FTS5_CJK_SO"]),
    S::duration("daemon.drain_timeout", TENTH, "The longest time that stopping may take. Work in progress continues until shortly before.").default("20s"),
    S::log_filter("log.level", "How much hermesd logs.").default("info"),
    S::choice("log.target", &["auto", "journal", "stderr"], "Where the log goes. auto chooses the journal under systemd, else standard error.").default("auto"),
    S::text("metrics.listen", "Address and port at which hermesd serves metrics over HTTP, such as \"127.0.0.1:9464\". The path is /metrics."),
    S::flag("metrics.allow_remote", "Allows metrics.listen to be an address that other machines can reach. Everybody who can reach it can read the metrics.").default("false"),
    S::list("metrics.hosts", "Host names that a collector may use, besides the address and loopback names. hermesd refuses a request with any other Host."),

    S::list("chats.allowed_users", "Ids of the people who may talk to the agent on every platform.").env(&["GATEWAY_ALLOWED_USERS"]),
    S::flag("chats.allow_everyone", "Everybody may talk to the agent on platforms that list no person, group or chat.").default("false").env(&["GATEWAY_ALLOW_ALL_USERS"]),
    S::choice("chats.strangers", &["pair", "ignore"], "The answer to unknown people in private chats of platforms that do not set strangers themselves.").hermes(&["unauthorized_dm_behavior", "gateway.unauthorized_dm_behavior"]),
    S::duration_or_zero("chats.backlog_age", SECOND, "hermesd does not answer messages that waited longer than this for the daemon to start. It says so in the chat. 0 answers all.").default("12h"),
    S::flag("chats.stream", "Shows an answer while the agent writes it, on platforms that allow a message to change.").default("true"),
    S::integer("chats.largest_file", 1, 2000, "The largest file in megabytes that hermesd accepts from a chat or sends to one.").default("20"),
    S::list("chats.send_files_from", "Directories from which an agent may send files, besides the session's own, the temporary one and what this chat has sent. / and your home directory are not allowed."),
    S::integer("chats.files_quota", 1, 1_000_000, "How many megabytes of files from chats stay on disk. Above that, hermesd removes the oldest files of the chat that holds the most.").default("1000"),
    S::duration_or_zero("chats.files_age", SECOND, "hermesd removes files from chats after this time. 0 leaves them.").default("30d"),
];

/// The table of the settings of hooks.
#[rustfmt::skip]
pub(super) const HOOKS: &[S] = &[
    S::text("hooks.on_session_start", "Program to run when a conversation begins, or resumes in a terminal. It gets JSON on standard input and the same in the environment."),
    S::text("hooks.on_session_end", "Program to run when a conversation ends. It gets JSON on standard input and the same in the environment."),
    S::text("hooks.on_handoff_requested", "Program to run when a handoff is requested. It gets JSON on standard input and the same in the environment."),
    S::text("hooks.on_handoff_completed", "Program to run when a handoff has completed. It gets JSON on standard input and the same in the environment."),
    S::text("hooks.on_handoff_failed", "Program to run when a handoff has failed or was cancelled. It gets JSON on standard input and the same in the environment."),
    S::text("hooks.on_turn_end", "Program to run when the agent has answered, or failed to. It gets JSON on standard input and the same in the environment."),
    S::text("hooks.on_question", "Program to run when the agent asks a person something. It gets JSON on standard input and the same in the environment."),
    S::duration("hooks.timeout", TENTH, "hermesd kills a hook that takes longer.").default("30s"),
];
