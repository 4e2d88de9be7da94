use crate::config::platform_settings::*;
use crate::config::{
    AccessRules, Credential, GroupRule, MessageLimits, PlatformDescriptor, SettingSpec as S,
};

const HOMESERVER: Credential = Credential {
    setting: "homeserver",
    label: "address of the homeserver",
};

pub const DESCRIPTOR: PlatformDescriptor = PlatformDescriptor {
    name: "matrix",
    thread_word: "thread",
    settings: SETTINGS,
    credentials: &[
        &[
            HOMESERVER,
            Credential {
                setting: "token",
                label: "access token",
            },
        ],
        &[
            HOMESERVER,
            Credential {
                setting: "user_id",
                label: "user id (@name:server)",
            },
            Credential {
                setting: "password",
                label: "password",
            },
        ],
    ],
    enabled_by: &[&["token"], &["password"]],
    access: AccessRules {
        // The id of a private chat is the id of a room, not of a person.
        is_private_chat: |_| false,
        groups: GroupRule::All,
        offers_pairing: true,
        people_have_aliases: false,
        person_id: str::to_owned,
    },
    limits: MessageLimits {
        text: Some(16_000),
        files: Some(1),
    },
    shared_block_has_extra: false,
    setup: &[
        "Create an account for the bot on a homeserver. Copy its access token, or use its password.",
    ],
    manifest: None,
};

#[rustfmt::skip]
const SETTINGS: &[S] = &[
    ENABLED,
    HOME_CHANNEL.env(&["MATRIX_HOME_ROOM"]),
    HOME_CHANNEL_NAME.env(&["MATRIX_HOME_ROOM_NAME"]),
    HOME_CHANNEL_THREAD.env(&["MATRIX_HOME_ROOM_THREAD_ID"]),
    HOME_CHANNEL_USER,
    AGENT,
    ALLOWED_USERS.hermes(&["allowed_users"]),
    ALLOWED_GROUP_USERS,
    ALLOWED_CHATS,
    ALLOW_EVERYONE,
    OWNER,
    TRUSTED,
    STRANGERS,
    DM_POLICY,
    ONLY_CHATS.env(&["MATRIX_ALLOWED_ROOMS"]).hermes_first(&["extra.allowed_rooms"]).hermes(&["allowed_rooms"]),
    REQUIRE_MENTION.default("true"),
    FREE_CHATS.env(&["MATRIX_FREE_RESPONSE_ROOMS"]).hermes_first(&["extra.free_response_rooms"]).hermes(&["free_response_rooms"]),
    THREAD_REQUIRE_MENTION.hermes_first(&["extra.thread_require_mention"]),
    S::flag("auto_thread", "In rooms, the bot answers in a thread. Each thread is a session.").default("true").env(&["MATRIX_AUTO_THREAD"]).hermes(&["auto_thread"]),
    S::choice("session_scope", &["auto", "room", "thread"], "What a session covers: a room or a thread. With auto, auto_thread decides.").default("auto").env(&["MATRIX_SESSION_SCOPE"]).hermes(&["session_scope"]),
    S::flag("dm_auto_thread", "In private chats, the bot answers in a thread too.").default("false").env(&["MATRIX_DM_AUTO_THREAD"]),
    S::flag("dm_mention_threads", "In private chats, a mention begins a thread.").default("false").env(&["MATRIX_DM_MENTION_THREADS"]).hermes(&["dm_mention_threads"]),
    REACTIONS,
    S::text("homeserver", "The address of the homeserver: https://matrix.example.org.").env(&["MATRIX_HOMESERVER"]).hermes(&["extra.homeserver"]),
    S::text("user_id", "The bot's id: @name:server.").env(&["MATRIX_USER_ID"]).hermes(&["extra.user_id"]),
    S::text("device_id", "The id of the device that the bot signs in as.").env(&["MATRIX_DEVICE_ID"]).hermes(&["extra.device_id"]),
    S::secret("token", "The bot's access token.").env(&["MATRIX_ACCESS_TOKEN"]).hermes(&["token"]),
    S::secret("password", "The bot's password. It counts only if there is no token.").env(&["MATRIX_PASSWORD"]).hermes(&["extra.password"]),
];
