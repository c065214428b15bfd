export type Language = 'en' | 'zh'

const en = {
  report: 'Benchmark report', comparison: 'Comparison of runs', history: 'Runs over time', light: 'Light', dark: 'Dark', system: 'System', theme: 'Theme', language: 'Language',
  clean: 'No finding', red: 'Red', cleanHint: 'The books of all clients and the server agree.',
  accepted: 'accepted', acceptedHint: 'durable, and answered', delivered: 'delivered', offered: 'offered',
  perSecond: '/s', perCpu: 'per CPU-second of the server', endToEnd: 'end to end', ack: 'answer to a send', p50: 'half of all', p90: '90 %', p99: '99 %', p999: '99.9 %', max: 'the slowest',
  memory: 'memory', perConnection: 'per connection', connections: 'connections', disk: 'disk per message', messagesPerCommit: 'messages per commit',
  rates: 'Messages', ratesHint: 'Offered is what senders wanted to send, accepted what is durable and answered, delivered what receivers got. Three figures that are never mixed.',
  latency: 'Latency', latencyHint: 'End to end, in each second. It begins when a message was due, not when it could leave, so that a stall of the server hides nothing.',
  heat: 'All messages by latency', heatHint: 'Each column is a second; the darker a field, the more messages took so long.',
  curve: 'How slow are the slowest?', curveHint: 'The share of messages that took no longer. From each mark to the next one, ten times fewer messages are slower.',
  cpu: 'Processor', cpuHint: 'Cores in use. The load generator runs on the same machine, unless its report says otherwise.',
  server: 'server', database: 'PostgreSQL', generator: 'generator', rss: 'Memory of the server',
  stops: 'What holds a message up', stopsHint: 'One commit, which ends when the disk or the database has it, and how long garbage collection stopped the server in the second.',
  commitP50: 'commit, half of all', commitP99: 'commit, 99 %', pauses: 'pauses',
  audit: 'What became of every message', auditHint: 'Every client keeps books of what it sent and got. At the end the histories are read back and compared.',
  lost: 'lost', duplicate: 'duplicate', ghost: 'ghost', refused: 'refused and shown', reordered: 'out of order', altered: 'altered', gap: 'gaps', leaked: 'shown to others', stale: 'stale head', cursor: 'cursor moved back', recalled: 'shown after its recall', rejected: 'rejected', unknown: 'without an answer', messages: 'messages', deliveries: 'deliveries', readBack: 'read back', lagged: 'caught up by history',
  errors: 'errors', gone: 'connections that ended', first: 'first findings',
  machine: 'Machine and parameters', rerun: 'The same run again', processor: 'processor', cores: 'cores', ram: 'memory', kernel: 'kernel', go: 'Go', commit: 'commit', files: 'open files', sync: 'one sync of the disk', colocated: 'load generator', here: 'on the same machine', elsewhere: 'elsewhere',
  raised: 'limits that were raised', from: 'from', to: 'to', none: 'none', warmUp: 'warm-up', drain: 'drain', seconds: 's', parameter: 'parameter', value: 'value',
  half: 'The load generator used more than half of the CPU of what it measures.',
  nodes: 'nodes', clusterHint: 'Every node more is measured with the same work. The share is that of the first line’s messages per CPU-second.', time: 'time', moment: 'time', share: 'share', withDatabase: 'with PostgreSQL', oneRun: 'Run with {n} nodes', oneRun1: 'Run with one node', charge: 'What a CPU-second does',
  old: 'old', new: 'new', runs: '{n} runs', change: 'change', figure: 'figure', verdict: 'verdict', chance: 'by chance', chanceHint: 'Medians, and the range in which the median lies with a confidence of 95 %. “By chance” is how often two sets of runs of one and the same program would differ so much (Mann–Whitney).',
  better: 'better', worse: 'worse', 'no difference shown': 'no difference shown', 'too few runs': 'too few runs', fewHint: 'With fewer than four runs on each side nothing can be said with confidence.',
  knee: 'The highest rate that is held', kneeHint: 'Each line is a run with a server of its own. A rate is held if the run meets {n} and is not overloaded.', rate: 'rate', held: 'held', tooHigh: 'too high', rateHint: 'messages per second',
  published: 'Theirs beside ours', publishedHint: 'The same test, as its system’s makers have published it, and this run. Rates are divided by all cores of the server and its database, and by those that were in use, which is what a CPU-second does. The machines differ, so compare what a core does, and no total.',
  theirs: 'theirs', ours: 'ours', perCore: 'per core', perCpuSecond: 'per CPU-second', whatSent: 'messages', theirMachine: 'their hardware', theirCores: 'cores of server and database', inUse: '{n} in use', source: 'source',
  habits: 'What makes their figures look better', ourHabits: 'Here an answer means that the message is on the disk, each message is followed to each receiver and looked for in the history, and repeats count as errors. No client tells what it has read.',
  ourHabitsReceipts: 'Here an answer means that the message is on the disk, each message is followed to each receiver and looked for in the history, and repeats count as errors. Clients tell what they have read.',
  h_send_only: 'The clients that send take no messages in.', h_one_watcher: 'One receiver of all looks at what it gets.', h_no_receipts: 'No client tells what it has received or read.', h_counts_only: 'Clients count messages and do not look for repeats: a lost one and a doubled one cancel out.',
  h_ack_before_store: 'A send is answered when it is in a queue, before the database has it.', h_no_store: 'Nothing is stored: a wait of 20 ms stands in for the database.', h_peak: 'The figure is the peak, not the mean of the run.',
  f_accepted_per_s: 'accepted', f_delivered_per_s: 'delivered', f_max: 'end to end, the slowest', f_mean: 'end to end, mean', f_ack_mean: 'answer to a send, mean', f_disk_bytes_per_message: 'disk per message', f_acked: 'acked',
  checks: 'Checks', checksHint: 'The criteria of WildfireChat’s tests: numbers are exact, and soon after the end the server has nothing left to do.', wanted: 'wanted', found: 'found', met: 'met', failed: 'failed', checkFailed: 'A check failed: {n}',
  c_acked: 'messages acked', c_stored: 'messages in the histories', c_delivered: 'messages delivered', c_watcher: 'messages of the receiver that watches', c_idle: 'cores in use 5 s after the end, at most', c_steady: 'CPU of the quietest tenth of the seconds, of the median, at least',
  serverCores: 'server cores', scaled: 'This run has {n} % of the full load.',
  store: 'Store on disk', storeHint: 'What the store takes on the disk, its log and what it has not yet compacted included.',
  reliabilityHint: 'Each client logs in at a random moment and writes to others at random. What each has sent, what was answered and what it has shown is held against the histories.',
  story1: '1. People write to each other', story2: '2. A group of many', story3: '3. The server is killed, and its clients come back', reconnectHint: 'Clients of the Go SDK write to each other while the server is killed with SIGKILL and started again. The checker holds what each was told and has shown against the histories.',
  killed: 'When the server was killed', killedHint: 'Each red line over the messages is a SIGKILL, after which the server was started again. All clients come back, send again under the same ids what has no answer, and read what they have missed.', killedPutOff: 'What was due meanwhile left late; its latency has all of it, and it does not count as overload.',
  noAckFor: 'no send acked for', allBack: 'all back after', longest: 'longest', median: 'median', sentAgain: 'sends made again', askedAgain: 'syncs and pages of history asked for again', putOff: 'messages put off',
  clients: 'clients', kills: 'times the server was killed', tried: 'messages tried', noAck: 'messages without an ack', strangers: 'refused, of those to groups of strangers',
  conditions: 'What else differs', conditionsHint: 'Each of these may be the reason.', when: 'when', each: 'each run',
  tasks: 'What was done', tasks_connections: 'Memory is that of the server for each connection that is open, after the idle time of a step. The clients are on the same machine, so the kernel has both ends of each.',
  tasks_presence: 'Watchers set their list, and have a presence of each user in it. Then these users log in.', tasks_login: 'From the dial until the list of conversations is there. The first time nothing is in memory yet.', tasks_storm: 'All connections are lost at once and come back at once. Meanwhile half of the clients go on writing to the other half, and nothing may be lost or come twice.',
  tasks_sync: 'A sync asks for the list of conversations: all of it, when nothing has happened, and when a tenth is new.', tasks_history: 'Every client reads all its conversations, page by page.', tasks_mixed: 'What all clients together did in the measured time.', tasks_soak: 'What all clients together did in the measured time.',
  tasks_limit: 'One event loop of the kind that the server has sends frames back, or on to others; a log is synced to the disk for all entries that have come meanwhile. No chat server can do more with the same sockets and the same disk.',
  t_echo: 'frame and back', t_echo_n: 'frame and back', 't_fan-out': 'frame to others', 't_fan-out_n': 'frame to {n} others', t_log: 'entry of a log', t_log_n: 'entry of a log, a sync for {n}', t_watch: 'list of users set', t_watch_n: 'list of users set', t_presence: 'presence told', t_presence_n: 'presence told', t_connect: 'login', t_connect_n: 'login, {n}', t_return_n: 'storm {n}', t_return: 'came back',
  't_sync-all': 'sync of everything', 't_sync-none': 'sync of nothing new', 't_sync-some': 'sync of a tenth', t_history: 'page of history', t_send: 'send', t_delivery: 'delivery', t_receipt: 'receipt', t_idle: 'idle', t_ping: 'ping',
  onTheirWay: 'on their way', count: 'count', inASecond: 'in a second', again: 'tried again', cpuEach: 'CPU each', userBytes: 'memory each', kernelBytes: 'in the kernel', idleCores: 'cores when idle', beats: 'heartbeats', ping50: 'ping, half of all', ping99: 'ping, 99 %', storm: 'storm',
  floor: 'Share of what is possible', floorHint: 'Measured just before the run with as many connections and messages of that size, and nothing but sockets and a log: each message comes in and is answered, is written and synced, and goes to its receivers. Nothing is checked, numbered or looked up.', floorRate: 'messages per CPU-second, at most', floorOurs: 'this run', floorShare: 'share',
  drift: 'From the second quarter to the last', driftHint: 'By then all caches are warm. A server whose memory grows by more than a fifth makes the run red.', secondQuarter: 'second quarter', lastQuarter: 'last quarter',
  e_kind: 'Capacity', e_hint: 'What a number of users needs, from what each step has cost when it was measured.', e_online: '{n} % of the users, in the busiest hour', e_load: 'with a load of {n} %', e_nodeCores: 'with {n} processors', e_all: 'of all nodes together', e_disk: 'disk', e_days: 'in {n} days', e_databases: 'databases', e_embedded: 'one node has its own store', e_network: 'network', e_toClients: 'to clients, in the busiest hour',
  e_stages: 'What keeps the processors busy', e_stagesHint: 'The steps of a message after WildfireChat: send, distribution, notification, push, pull; and what clients do besides.', e_formulas: 'The other figures', e_plan: 'What people do', e_costs: 'What a step costs, as measured',
  e_send: 'send', e_commit: 'commit', e_distribution: 'distribution', e_notification: 'notification', e_receipts: 'receipts', e_push: 'push', e_pull: 'pull', e_logins: 'logins', e_idle: 'idle connections', e_cluster: 'to other nodes',
  e_against: 'Held against runs', e_againstHint: 'Runs of mixed, and what the costs say of them. They were measured by other runs.', e_speed: 'times as fast', e_measured: 'cores, measured', e_estimated: 'cores, estimated',
  e_users: 'users', e_direct: 'messages to one other, in an hour', e_group: 'messages to a group, in an hour', e_members: 'its members who are online', e_loginsEach: 'logins in an hour', e_opens: 'conversations opened in an hour', e_hours: 'busiest hours to which a day is equal', e_size: 'text of a message',
} as const

export type Key = keyof typeof en

const zh: Record<Key, string> = {
  report: '基准测试报告', comparison: '多次运行对比', history: '历次运行', light: '浅色', dark: '深色', system: '跟随系统', theme: '主题', language: '语言',
  clean: '未发现问题', red: '不合格', cleanHint: '所有客户端的记录与服务器一致。',
  accepted: '已接收', acceptedHint: '已落盘并已应答', delivered: '已送达', offered: '计划发送',
  perSecond: '/秒', perCpu: '每 CPU 秒（服务器）', endToEnd: '端到端', ack: '发送应答', p50: '一半', p90: '90%', p99: '99%', p999: '99.9%', max: '最慢',
  memory: '内存', perConnection: '每个连接', connections: '连接', disk: '每条消息占用磁盘', messagesPerCommit: '每次提交的消息数',
  rates: '消息', ratesHint: '“计划发送”是发送方想发的，“已接收”是已落盘并已应答的，“已送达”是接收方收到的。三者从不混用。',
  latency: '延迟', latencyHint: '每一秒的端到端延迟。从消息应当发出的时刻算起，而不是从它能发出的时刻算起，所以服务器的停顿无法掩盖。',
  heat: '全部消息的延迟分布', heatHint: '每一列是一秒；颜色越深，处于该延迟的消息越多。',
  curve: '最慢的有多慢？', curveHint: '不超过该延迟的消息所占的比例。每过一个刻度，更慢的消息减少到十分之一。',
  cpu: '处理器', cpuHint: '使用的核数。除非报告另有说明，负载发生器与服务器在同一台机器上。',
  server: '服务器', database: 'PostgreSQL', generator: '负载发生器', rss: '服务器内存',
  stops: '什么让消息等待', stopsHint: '一次提交（到磁盘或数据库落定为止）的耗时，以及这一秒内垃圾回收让服务器停顿的时间。',
  commitP50: '提交，一半', commitP99: '提交，99%', pauses: '停顿',
  audit: '每一条消息的下落', auditHint: '每个客户端都记录自己发出和收到的消息。结束时读回历史记录并逐条核对。',
  lost: '丢失', duplicate: '重复', ghost: '凭空出现', refused: '被拒绝却出现', reordered: '乱序', altered: '被改动', gap: '缺号', leaked: '泄露给他人', stale: '过时的位置', cursor: '游标后退', recalled: '撤回后仍出现', rejected: '被拒绝', unknown: '没有应答', messages: '消息', deliveries: '送达', readBack: '读回核对', lagged: '由历史补齐',
  errors: '错误', gone: '中断的连接', first: '最先发现的问题',
  machine: '机器与参数', rerun: '再跑一次', processor: '处理器', cores: '核数', ram: '内存', kernel: '内核', go: 'Go', commit: '提交', files: '文件数上限', sync: '磁盘同步一次', colocated: '负载发生器', here: '在同一台机器上', elsewhere: '在另一台机器上',
  raised: '调高的限制', from: '原为', to: '改为', none: '不限', warmUp: '预热', drain: '收尾', seconds: '秒', parameter: '参数', value: '值',
  half: '负载发生器的 CPU 用量超过了被测服务器的一半。',
  nodes: '节点数', clusterHint: '每增加一个节点，都以同样的工作量测量。“比例”指每 CPU 秒消息数与第一行之比。', time: '耗时', moment: '时刻', share: '比例', withDatabase: '含 PostgreSQL', oneRun: '{n} 个节点的运行', oneRun1: '单节点的运行', charge: '一个 CPU 秒能做多少',
  old: '旧', new: '新', runs: '{n} 次运行', change: '变化', figure: '指标', verdict: '结论', chance: '偶然概率', chanceHint: '中位数，以及中位数以 95% 置信度所在的范围。“偶然概率”是同一个程序的两组运行出现这么大差异的概率（Mann–Whitney 检验）。',
  better: '更好', worse: '更差', 'no difference shown': '未见差异', 'too few runs': '次数太少', fewHint: '每一边少于四次运行时，无法有把握地下结论。',
  knee: '能承受的最高速率', kneeHint: '每一行是一次独立的运行，各用一台新的服务器。达到 {n} 且没有过载，才算承受得住。', rate: '速率', held: '承受得住', tooHigh: '太高', rateHint: '每秒消息数',
  published: '对方与我们', publishedHint: '同一项测试：对方公布的结果与本次运行的结果。速率分别除以服务器和数据库的全部核数，以及实际占用的核数（即每 CPU 秒能做多少）。机器不同，所以请比较每个核能做多少，而不是总数。',
  theirs: '对方', ours: '我们', perCore: '每核', perCpuSecond: '每 CPU 秒', whatSent: '消息', theirMachine: '对方的硬件', theirCores: '服务器和数据库的核数', inUse: '占用 {n}', source: '出处',
  habits: '哪些做法让对方的数字更好看', ourHabits: '这里，应答意味着消息已落盘；每条消息都跟踪到每个接收方，并在历史记录中核对；重复算作错误。客户端不上报已读。',
  ourHabitsReceipts: '这里，应答意味着消息已落盘；每条消息都跟踪到每个接收方，并在历史记录中核对；重复算作错误。客户端上报已读。',
  h_send_only: '发送消息的客户端不接收消息。', h_one_watcher: '所有接收方中只有一个查看收到的消息。', h_no_receipts: '客户端不上报收到或已读。', h_counts_only: '客户端只数消息，不查重复：丢一条、重一条会互相抵消。',
  h_ack_before_store: '消息进入队列就应答，此时数据库还没有存下。', h_no_store: '什么都不存：用等待 20 毫秒代替数据库。', h_peak: '该数字是峰值，不是整个运行的平均值。',
  f_accepted_per_s: '已接收', f_delivered_per_s: '已送达', f_max: '端到端，最慢', f_mean: '端到端，平均', f_ack_mean: '发送应答，平均', f_disk_bytes_per_message: '每条消息占用磁盘', f_acked: '已应答',
  checks: '检查', checksHint: '野火测试的判定标准：数目完全一致，结束后不久服务器便无事可做。', wanted: '应为', found: '实为', met: '满足', failed: '未满足', checkFailed: '检查未通过：{n}',
  c_acked: '已应答的消息', c_stored: '历史记录中的消息', c_delivered: '已送达的消息', c_watcher: '观察者收到的消息', c_idle: '结束 5 秒后占用的核数，至多', c_steady: '最闲的十分之一时间的 CPU 与中位数之比，至少',
  serverCores: '服务器核数', scaled: '本次运行的负载为完整规模的 {n}%。',
  store: '磁盘上的存储', storeHint: '存储占用的磁盘，包括日志和尚未压实的部分。',
  reliabilityHint: '每个客户端在随机时刻登录，并随机给其他客户端发消息。各自发出的、得到应答的和显示出来的，都与历史记录逐条核对。',
  story1: '1. 人们互相写消息', story2: '2. 一个大群', story3: '3. 杀掉服务器，客户端重新连上', reconnectHint: 'Go SDK 客户端互相写消息时，服务器被 SIGKILL 杀掉并重新启动。检查器把每个客户端得到的应答和显示的内容与历史记录逐条核对。',
  killed: '服务器何时被杀', killedHint: '消息图上的每条红线是一次 SIGKILL，之后服务器重新启动。所有客户端重新连上，用相同的 ID 重发没有得到应答的消息，并读取错过的消息。', killedPutOff: '期间应当发出的消息推迟发出；它们的延迟包含全部等待时间，不算作过载。',
  noAckFor: '没有任何应答的时间', allBack: '全部恢复连接用时', longest: '最长', median: '中位数', sentAgain: '重发次数', askedAgain: '重新请求的同步和历史页', putOff: '推迟的消息',
  clients: '客户端', kills: '服务器被杀次数', tried: '尝试发送的消息', noAck: '没有应答的消息', strangers: '发往陌生群而被拒绝的',
  conditions: '还有哪些不同', conditionsHint: '其中任何一项都可能是原因。', when: '时间', each: '每次运行',
  tasks: '做了什么', tasks_connections: '内存是每一级空闲之后，服务器为每个打开的连接占用的内存。客户端在同一台机器上，所以内核里有每个连接的两端。',
  tasks_presence: '关注者设置名单，并得到其中每个用户的在线状态。然后这些用户登录。', tasks_login: '从拨号到拿到会话列表。第一次登录时内存里还什么都没有。', tasks_storm: '所有连接同时断开，又同时回来。期间一半客户端继续给另一半写消息，一条都不能丢，也不能重复。',
  tasks_sync: '同步即请求会话列表：全部、没有新内容时、十分之一有新内容时。', tasks_history: '每个客户端逐页读完自己的所有会话。', tasks_mixed: '所有客户端在测量时间内一共做了什么。', tasks_soak: '所有客户端在测量时间内一共做了什么。',
  tasks_limit: '与服务器同类的一个事件循环把帧发回或转发给别人；日志对期间到达的所有条目只做一次磁盘同步。用同样的套接字和磁盘，没有聊天服务器能做得更多。',
  t_echo: '一帧往返', t_echo_n: '一帧往返', 't_fan-out': '一帧转发', 't_fan-out_n': '一帧转发给 {n} 个连接', t_log: '日志条目', t_log_n: '日志条目，每 {n} 条同步一次', t_watch: '设置名单', t_watch_n: '设置名单', t_presence: '在线状态通知', t_presence_n: '在线状态通知', t_connect: '登录', t_connect_n: '登录，{n}', t_return_n: '第 {n} 次风暴', t_return: '重新连上',
  't_sync-all': '全量同步', 't_sync-none': '无新内容的同步', 't_sync-some': '十分之一有新内容的同步', t_history: '一页历史', t_send: '发送', t_delivery: '送达', t_receipt: '已读回执', t_idle: '空闲', t_ping: '心跳应答',
  onTheirWay: '在途', count: '次数', inASecond: '每秒', again: '重试', cpuEach: '每次 CPU', userBytes: '每连接内存', kernelBytes: '其中内核', idleCores: '空闲时核数', beats: '心跳', ping50: '心跳应答，一半', ping99: '心跳应答，99%', storm: '风暴',
  floor: '达到了可能性的几成', floorHint: '运行前用同样多的连接、同样大小的消息测得，只有套接字和日志：每条消息进来并得到应答，写入并同步到磁盘，再发给接收方。不检查、不编号、不查找。', floorRate: '每 CPU 秒消息数，上限', floorOurs: '本次运行', floorShare: '比例',
  drift: '从第二个四分之一到最后一个', driftHint: '那时所有缓存都已热起来。服务器内存增长超过五分之一，运行即不合格。', secondQuarter: '第二个四分之一', lastQuarter: '最后四分之一',
  e_kind: '容量', e_hint: '由每一步实测的代价推算一定数量的用户需要什么。', e_online: '最忙的一小时，用户的 {n}%', e_load: '负载为 {n}%', e_nodeCores: '每台 {n} 个处理器', e_all: '所有节点合计', e_disk: '磁盘', e_days: '{n} 天', e_databases: '数据库', e_embedded: '单节点使用自带的存储', e_network: '网络', e_toClients: '最忙的一小时，发往客户端',
  e_stages: '处理器在忙什么', e_stagesHint: '按野火的划分，一条消息的各步：发送、分发、通知、推送、拉取；以及客户端做的其他事。', e_formulas: '其他数字', e_plan: '人们做什么', e_costs: '每一步的实测代价',
  e_send: '发送', e_commit: '提交', e_distribution: '分发', e_notification: '通知', e_receipts: '已读回执', e_push: '推送', e_pull: '拉取', e_logins: '登录', e_idle: '空闲连接', e_cluster: '到其他节点',
  e_against: '与实测对照', e_againstHint: 'mixed 场景的运行，以及由代价推算的结果。代价来自另外的运行。', e_speed: '倍速', e_measured: '核数，实测', e_estimated: '核数，推算',
  e_users: '用户', e_direct: '每小时单聊消息', e_group: '每小时群消息', e_members: '群里的在线成员', e_loginsEach: '每小时登录', e_opens: '每小时打开的会话', e_hours: '一天相当于几个最忙的小时', e_size: '消息正文',
}

export interface Texts { language: Language; t: (key: Key, n?: number | string) => string; number: (v: number, digits?: number) => string }

export function textsOf(language: Language): Texts {
  const all = language === 'zh' ? zh : en
  return {
    language, t: (key, n) => all[key].replace('{n}', String(n ?? '')),
    number: (v, digits) => {
      const most = digits ?? (Math.abs(v) >= 100 ? 0 : Math.abs(v) >= 10 ? 1 : Math.abs(v) >= 0.1 ? 2 : 4)
      return new Intl.NumberFormat(language === 'zh' ? 'zh-CN' : 'en', { maximumFractionDigits: most }).format(v)
    },
  }
}

/** Returns a name and an aspect of it, joined by a comma: "answer to a send, 99 %". */
export const aspect = (x: Texts, name: Key, what: Key): string => x.t(name) + (x.language === 'zh' ? '，' : ', ') + x.t(what)

/** Formats a number of bytes in GB, MB or KB (powers of 1024), or in B below 1 KB. */
export function bytes(x: Texts, v: number): string {
  for (const [unit, of] of [['GB', 2 ** 30], ['MB', 2 ** 20], ['KB', 2 ** 10]] as const) if (v >= of) return `${x.number(v / of)} ${unit}`
  return `${x.number(v)} B`
}
