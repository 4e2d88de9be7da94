use crate::config::platform_settings::*;
use crate::config::{
    AccessRules, Credential, GroupRule, MessageLimits, PlatformDescriptor, SettingSpec as S,
};

pub const DESCRIPTOR: PlatformDescriptor = PlatformDescriptor {
    name: "whatsapp_cloud",
    thread_word: "chat",
    settings: SETTINGS,
    credentials: &[&[
        Credential {
            setting: "phone_number_id",
            label: "id of the phone number",
        },
        Credential {
            setting: "token",
            label: "access token",
        },
        Credential {
            setting: "app_secret",
            label: "app secret",
        },
        Credential {
            setting: "verify_token",
            label: "verify token of the webhook",
        },
    ]],
    enabled_by: &[&["phone_number_id", "token"]],
    access: AccessRules {
        is_private_chat: |chat| !chat.ends_with("@g.us"),
        groups: GroupRule::None,
        offers_pairing: false,
        people_have_aliases: false,
        person_id: str::to_owned,
    },
    limits: MessageLimits {
        text: Some(4096),
        files: Some(1),
    },
    shared_block_has_extra: false,
    setup: &[
        "At developers.facebook.com, create an app with WhatsApp. Copy the phone number id, an access token and the app secret.",
        "Choose a verify token and enter it with the address of your webhook.",
    ],
    manifest: None,
};

#[rustfmt::skip]
const SETTINGS: &[S] = &[
    ENABLED,
    HOME_CHANNEL,
    HOME_CHANNEL_NAME,
    HOME_CHANNEL_THREAD,
    HOME_CHANNEL_USER,
    AGENT,
    ALLOWED_USERS.env(&["WHATSAPP_CLOUD_ALLOWED_USERS", "WHATSAPP_CLOUD_ALLOW_FROM"]).hermes(&["allow_from", "extra.allow_from"]),
    ALLOWED_GROUP_USERS,
    ALLOWED_CHATS,
    ALLOW_EVERYONE,
    OWNER,
    TRUSTED,
    STRANGERS,
    DM_POLICY.env(&["WHATSAPP_CLOUD_DM_POLICY"]).hermes(&[]).hermes_first(&["dm_policy", "extra.dm_policy"]),
    S::text("phone_number_id", "The id of the bot's phone number.").env(&["WHATSAPP_CLOUD_PHONE_NUMBER_ID"]).hermes(&["extra.phone_number_id"]),
    S::text("webhook_host", "The address at which the webhook listens.").default("0.0.0.0").env(&["WHATSAPP_CLOUD_WEBHOOK_HOST"]).hermes(&["extra.webhook_host"]),
    S::integer("webhook_port", 1, 65535, "The port at which the webhook listens.").default("8090").env(&["WHATSAPP_CLOUD_WEBHOOK_PORT"]).hermes(&["extra.webhook_port"]),
    S::text("webhook_path", "The path of the webhook.").default("/whatsapp/webhook").env(&["WHATSAPP_CLOUD_WEBHOOK_PATH"]).hermes(&["extra.webhook_path"]),
    S::text("api_version", "The version of the Graph API.").default("v20.0").env(&["WHATSAPP_CLOUD_API_VERSION"]).hermes(&["extra.api_version"]),
    S::secret("token", "The bot's access token.").env(&["WHATSAPP_CLOUD_ACCESS_TOKEN"]).hermes(&["token", "extra.access_token"]),
    S::secret("app_secret", "The app secret. It signs the events of the webhook.").env(&["WHATSAPP_CLOUD_APP_SECRET"]).hermes(&["extra.app_secret"]),
    S::secret("verify_token", "The token with which Meta checks the webhook.").env(&["WHATSAPP_CLOUD_VERIFY_TOKEN"]).hermes(&["extra.verify_token"]),
];
