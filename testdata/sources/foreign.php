<?php
// Small and huge blocks of zend_mm; then what it says that it has from the system.
$list = [];
for ($i = 0; $i < 20000; $i++) $list[] = ['i' => $i, 's' => "x$i"];
$huge = str_repeat('y', 3000000);
echo memory_get_usage(true), " ready\n";
while (true) sleep(1000);
