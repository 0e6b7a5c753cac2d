"""The settings that have an effect, as typed attributes. `BrokerConfig` sets them; tests compare them with the tables.

An attribute is named after its setting, in snake case. Where another type or another value than the setting's own is
kept, a comment says which.
"""

from __future__ import annotations

from pathlib import Path

from broker.network.listener import Listener
from protocol.host_port import HostPort


class TypedSettings:
    """The attributes of `BrokerConfig` for settings that have an effect."""

    # identity and cluster
    broker_id: int  # -1: to be generated, above reserved_broker_max_id
    broker_id_generation_enable: bool
    broker_rack: str | None
    reserved_broker_max_id: int
    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int
    controller_socket_timeout_ms: int
    zookeeper_connect: str | None
    zookeeper_connection_timeout_ms: int | None  # None: the session timeout
    zookeeper_max_in_flight_requests: int
    zookeeper_session_timeout_ms: int

    # authorization
    allow_everyone_if_no_acl_found: bool
    authorizer_class_name: str
    ottla_authorizer: str
    super_users: str

    # listeners, connections, requests
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    control_plane_listener_name: str | None  # upper case
    inter_broker_listener_name: str
    security_inter_broker_protocol: str
    listener_security_protocol_map: dict[str, str]
    connections_max_idle_ms: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    fetch_max_bytes: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: dict[str, int]
    max_incremental_fetch_session_cache_slots: int
    queued_max_request_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    request_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    password_encoder_cipher_algorithm: str
    password_encoder_iterations: int
    password_encoder_key_length: int
    password_encoder_keyfactory_algorithm: str | None
    password_encoder_old_secret: str | None
    password_encoder_secret: str | None
    ottla_console_listener: HostPort | None
    console_has_tls: bool
    ottla_console_authentication: tuple[str, ...]
    ottla_console_hosts: tuple[str, ...]
    ottla_console_mode: str | None  # None: see the setting
    ottla_console_open: tuple[str, ...] | None  # None: everything on a loopback address without logins
    ottla_console_password_file: str
    ottla_console_schema_registry_basic_auth_user_info: str | None
    ottla_console_schema_registry_url: tuple[str, ...]
    ottla_console_token_file: str
    ottla_inter_broker_listener_names: tuple[str, ...]  # upper case
    ottla_jmx_port: int
    ottla_log_format: str
    ottla_log_level: str
    ottla_produce_validation: str
    ottla_zookeeper_legacy07_chroot: str

    # authentication
    connection_failed_authentication_delay_ms: int
    connections_max_reauth_ms: int
    delegation_token_expiry_check_interval_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_master_key: str | None
    delegation_token_max_lifetime_ms: int
    delegation_token_secret_key: str | None
    sasl_enabled_mechanisms: tuple[str, ...]
    sasl_jaas_config: str | None  # counts only for a mechanism of a listener: see of_listener
    sasl_kerberos_principal_to_local_rules: tuple[str, ...]
    sasl_kerberos_service_name: str | None
    sasl_mechanism_inter_broker_protocol: str
    sasl_oauthbearer_clock_skew_seconds: int
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None
    sasl_oauthbearer_expected_issuer: str | None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int
    sasl_oauthbearer_jwks_endpoint_url: str | None
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_sub_claim_name: str
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_server_callback_handler_class: str | None
    sasl_server_max_receive_size: int

    # topics and replication
    alter_log_dirs_replication_quota_window_num: int
    alter_log_dirs_replication_quota_window_size_seconds: int
    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    default_replication_factor: int
    delete_topic_enable: bool
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    inter_broker_protocol_version: str
    min_insync_replicas: int
    num_partitions: int
    num_replica_alter_log_dirs_threads: int | None  # None: the number of log directories
    num_replica_fetchers: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_max_messages: int  # -1: any number
    replica_lag_time_max_ms: int
    replica_selector_class: str | None
    replica_socket_timeout_ms: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    unclean_leader_election_enable: bool

    # the log
    log_dirs: tuple[Path, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_delete_retention_ms: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_threads: int
    log_cleanup_policy: tuple[str, ...]
    log_flush_interval_messages: int
    log_flush_interval_ms: int  # log.flush.scheduler.interval.ms if not set
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_initial_task_delay_ms: int
    log_message_downconversion_enable: bool
    log_message_timestamp_after_max_ms: int
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_difference_max_ms: int
    log_message_timestamp_type: str
    log_preallocate: bool
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_retention_ms: int  # from minutes or hours if not set; -1: no limit
    log_roll_jitter_ms: int  # from hours if not set
    log_roll_ms: int  # from hours if not set
    log_segment_bytes: int
    log_segment_delete_delay_ms: int
    message_max_bytes: int
    num_recovery_threads_per_data_dir: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int

    # groups and transactions
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_session_timeout_ms: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    offset_metadata_max_bytes: int
    offsets_commit_required_acks: int
    offsets_commit_timeout_ms: int
    offsets_load_buffer_size: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_load_buffer_size: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int
