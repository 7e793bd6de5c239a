(ns arrowwood.live-test
  "One table that Python writes, and Java, Clojure, C and Go follow at once: each sees every row once."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.programs :as programs]
   [clojure.java.io :as io]
   [clojure.java.shell :as shell]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (dev.arrowwood Arrowwood Follow ReadOption)
   (java.io File)
   (java.lang ProcessBuilder$Redirect)
   (java.time Duration)
   (java.util.concurrent TimeUnit)))

(def ^:private rows 20000)

(def ^:private writer "
import sys
import arrowwood as aw
import pyarrow as pa

with aw.writer(sys.argv[1], pa.schema([pa.field('n', pa.int64(), nullable=False)]), segment_rows=3000) as table:
    table.commit()
    print('ready', flush=True)
    for line in sys.stdin:
        for start in range(table.rows, int(line), 100):
            for n in range(start, start + 100):
                table.append_row(n=n)
            table.commit(durable=start % 5000 == 0, positions={'n': start})
")

(defn- start ^Process [& words]
  (.start (doto (ProcessBuilder. ^java.util.List (mapv str words))
            (.redirectError ProcessBuilder$Redirect/INHERIT))))

(defn- left-out [what]
  (println (str "test-jvm: the live table is not followed by " what ": it is not here"))
  nil)

(defn- here? [& words] (zero? (:exit (shell/sh "sh" "-c" (str/join " && " (map #(str "command -v " %) words))))))

(defn- library? [] (zero? (:exit (shell/sh "sh" "-c" "pkg-config --exists arrowwood"))))

(defn- sources [] (io/file (System/getProperty "arrowwood.docs") ".." "tests" "capi"))

(defn- library-folder [] (str/trim (programs/run "pkg-config" "--variable=libdir" "arrowwood")))

(defn- c-follower
  "The words that follow a table from C, or nil."
  [folder]
  (if (and (library?) (here? "cc"))
    (let [program (io/file folder "follow-c")]
      (programs/run "sh" "-c" (str "cc -std=c99 '" (io/file (sources) "c" "follow.c") "' $(pkg-config --cflags --libs arrowwood)"
                                   " -Wl,-rpath,'" (library-folder) "' -lm -lpthread -o '" program "'"))
      [program])
    (left-out "C")))

(defn- go-follower [folder]
  (if (and (library?) (here? "cc" "go"))
    (let [program (io/file folder "follow-go")]
      (programs/run "sh" "-c" (str "cd '" (io/file (sources) "go") "' && CGO_LDFLAGS_ALLOW='-Wl,-rpath.*'"
                                   " CGO_LDFLAGS='-Wl,-rpath," (library-folder) "' go build -o '" program "' ."))
      [program "follow"])
    (left-out "Go")))

(defn- of-program [words table]
  (let [process (apply start (concat words [table rows]))]
    (future
      (let [said (slurp (.getInputStream process))]
        (is (.waitFor process programs/patience-ms TimeUnit/MILLISECONDS))
        (is (zero? (.exitValue process)) (str (first words)))
        (mapv parse-long (str/split-lines (str/trim said)))))))

(defn- of-java
  "Follows a table; `reached` is how many rows it has seen."
  [^File table reached]
  (future
    (with-open [^Follow follow (.follow (Arrowwood/open (.toPath table) (make-array ReadOption 0)) 0)]
      (loop [seen []]
        (reset! reached (count seen))
        (if (< (count seen) rows)
          (let [more (.next follow (Duration/ofMillis programs/patience-ms))]
            (if (.isPresent more)
              (recur (into seen (.toArray (.stream (.asLong (.column ^dev.arrowwood.Dataset (.get more) "n"))))))
              seen))
          seen)))))

(defn- of-clojure [table from reached]
  (future
    ;; Nobody begins behind the end of a table.
    (programs/until (str from " rows are there") #(<= (long from) (aw/row-count (aw/open table))))
    (with-open [follower (aw/follow table {:from from :timeout-ms programs/patience-ms})]
      (reduce (fn [seen more]
                (let [seen (into seen (:n more))]
                  (reset! reached (count seen))
                  (if (= (dec (long rows)) (peek seen)) (reduced seen) seen)))
              [] follower))))

(deftest a-table-that-python-writes-is-followed-by-all
  (if-let [python (programs/python)]
    (let [folder (programs/folder)
          table (io/file folder "live")
          programs (into {} (remove (comp nil? val)) {"C" (c-follower folder) "Go" (go-follower folder)})
          script (doto (io/file folder "writer.py") (spit writer))
          process (start python script table)
          java (atom 0)
          clojure (atom 0)
          said (io/reader (.getInputStream process))]
      (is (= "ready" (.readLine said)))
      (let [followers (merge {"Java" (of-java table java)
                              "Clojure" (of-clojure table 0 clojure)
                              "Clojure, later" (of-clojure table 7000 (atom 0))}
                             (update-vals programs #(of-program % table)))]
        ;; Some rows come while others are looked at, and now and then all have been seen.
        (with-open [in (io/writer (.getOutputStream process))]
          (doseq [end (range 1000 (inc rows) 1000)]
            (.write in (str end "\n"))
            (.flush in)
            (doseq [[who reached] {"Java" java "Clojure" clojure}]
              (programs/until (str who " has seen " end " rows")
                              #(or (<= (long end) (long @reached)) (realized? (followers who)))))))
        (doseq [[who seen] followers]
          (is (= (range (if (= "Clojure, later" who) 7000 0) rows) (programs/value (str who " has seen all") seen)) who))
        (is (.waitFor process programs/patience-ms TimeUnit/MILLISECONDS))
        (is (zero? (.exitValue process)))
        (is (= {"n" (- (long rows) 100)} (aw/positions (aw/open table))))))
    (is (nil? (left-out "anyone; Python, which writes it,")))))
